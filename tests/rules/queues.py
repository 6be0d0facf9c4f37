"""Queues and settings to ask the rules about."""

from __future__ import annotations

from typing import Any

import msgspec

from budgetfrontier import QueueState
from budgetfrontier.core.model import QueueId, QueueRecord
from budgetfrontier.settings.overrides import Effective, QueueSettings
from budgetfrontier.settings.schema import FrontierSettings

NOW = 1000.0
READY, IN_PROCESS, SNOOZED = QueueState.READY, QueueState.IN_PROCESS, QueueState.SNOOZED
INACTIVE, RETIRED, EXHAUSTED = QueueState.INACTIVE, QueueState.RETIRED, QueueState.EXHAUSTED
USUAL = Effective(FrontierSettings(), []).base


def settings(**changes: Any) -> QueueSettings:
    return msgspec.structs.replace(USUAL, **changes)


def queue(state: QueueState = IN_PROCESS, **fields: Any) -> QueueRecord:
    """A queue that could go on: three URIs, one of them out, a balance."""
    usual = {"queued": 3, "out": 1, "balance": 5, "balance_replenish_amount": 10, "total_budget": 100}
    return QueueRecord("a.test", QueueId(1), state=state, **(usual | fields))
