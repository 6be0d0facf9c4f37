"""Java's regular expressions as ours: the same URLs match, for a table that was compared with Java's, and is again."""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

from budgetfrontier.settings.scope_rules import check_rule
from budgetfrontier.tools.heritrix.java_regex import searched, translate

TEXTS = [
    "http://a.test/", "http://a.test/b.pdf", "http://a.test/B.PDF", "http://a.test/b.pdf?x", "foo", "http://a.test/foo",
    "foo/http://a.test/", "bar.", "bar...", "bar", "xbar.", "a-b", "a.b", "a\\b", "[x]", "", "ab", "aB", "AB", "abab",
    "http://a.test/calendar/2026/1", "cal", "http://www.a.test/?sid=1&year=2",
    "xfoox", "}", "a&&b", "x]", ".",
]  # fmt: skip
SAME = [
    ".*", ".*.*", ".*?foo.*", ".*foo", "foo.*", ".*foo.*?", ".*+foo", ".*foo.*+", ".+foo.+", r".*bar\.*", r"bar\.*",
    ".*foo|bar.*", ".*foo.*|.*bar.*", "foo|.*bar.*|b", "(.*foo|bar).*", "(foo.*|.*bar)", ".*(foo.*|bar)", "[.*].*",
    r".*(?i)\.pdf$", "(?i).*[.]PDF.*", "a(?i)b|AB", "(?i)ab|a(?-i)b", "(?i:a)b", "(a(?i)b)+", "(?s).*foo", "(?u)foo",
    r"\Qbar.\E*", r"\Qbar...", r".*\Q.\E", r"[\w-.]+", r"[\w.-]+", "[]x]+", r"[\[\]x]+", "[^]a]*", r"\p{Alpha}+",
    r"\pL+", r"[\p{Upper}b]+", r"\P{Alpha}.*", "(?<n>ab)\\k<n>", r"(ab)\1", "(?>a|ab)b?", "a*+b", "(?!.*foo).*",
    ".*(?<=foo)", "(?=.*foo).*a.*", r"\x61b", r"\x{61}\u0062", r"\0141b", r"a\x2db", r".*\z", r".*\Z", "^foo$",
    ".*^foo",
    "a{1}b{1,2}", "(ab){2,}", ".*[?&]sid=.*", r"https?://[^/]+/calendar/\d{4}/.*", r".*a\\.*", "}|]", "a&&b|[a&|~-]+",
    ".*(calendar|year).*", "(?i).*cal", "(?m)^.*foo$", "|foo", "foo|",
]  # fmt: skip
REFUSED = [
    "(", ")", "a(b", "[a", "*a", "(?x)a b", "[a[b]]", "[a-z&&[^b]]", r"\h", r"\p{Greek}", r"[\P{L}]", r"[a-\d]", "a{",
    "(?a)b", "(?P<n>a)", r"\x{110000}", "a\\", r"\y",
]  # fmt: skip


def matches(text: str) -> str:
    """For each text whether an expression matches it as a whole, after it was translated both ways."""
    rule = searched(text)
    check_rule(f"regex:{rule}")
    found = "".join("01"[bool(re.search(rule, each))] for each in TEXTS)
    whole = "".join("01"[bool(re.fullmatch(translate(text), each))] for each in TEXTS)
    assert found == whole, text
    return found


def test_what_is_searched_for_matches_as_the_whole() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # about sets that Python may read otherwise one day
        assert [text for text in SAME if text != ".*+foo" and "1" not in matches(text)] == []


@pytest.mark.parametrize("text", REFUSED)
def test_what_python_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        searched(text)


def test_dots_at_the_ends_become_a_search() -> None:
    pairs = {".*foo.*": "foo", r".*\.(?i)pdf": r"\.(?i:pdf)\Z", ".*foo|bar": r"foo\Z|\Abar\Z", "a.*b": r"\A(?:a.*b)\Z"}
    assert {text: searched(text) for text in pairs} == pairs


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK, whose expressions these are")
def test_java_matches_the_same(tmp_path: Path) -> None:
    (tmp_path / "Match.java").write_text(JAVA)
    lines = "\n".join("\t".join([text, *TEXTS]) for text in SAME)
    run = subprocess.run(
        ["java", "Match.java"], cwd=tmp_path, input=lines, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert dict(zip(SAME, run.stdout.split("\n"), strict=False)) == {text: matches(text) for text in SAME}


JAVA = """
import java.io.*;
import java.util.regex.*;
public class Match {
  public static void main(String[] arguments) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line; (line = in.readLine()) != null; System.out.print("\\n")) {
      String[] parts = line.split("\\t", -1);
      for (int i = 1; i < parts.length; i++) System.out.print(Pattern.matches(parts[0], parts[i]) ? 1 : 0);
    }
  }
}
"""
