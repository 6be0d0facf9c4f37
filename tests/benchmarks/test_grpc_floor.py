from __future__ import annotations

import pytest

from benchmarks import grpc_floor
from benchmarks.grpc_servers import FORMS


@pytest.mark.parametrize("form", FORMS)
def test_each_form_answers_every_message(form: str) -> None:
    found = grpc_floor.measure([form], count=400, rounds=1)
    assert all(figure > 0 for figure in found[form].values())
    assert len(found[form]) == len(grpc_floor.legs(1))
    assert len(grpc_floor.table(found).splitlines()) == 3
