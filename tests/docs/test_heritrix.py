"""The table for users of Heritrix: every class of its frontier is in it, and what it names exists here."""

from __future__ import annotations

import re

from budgetfrontier.settings import Settings
from budgetfrontier.settings.field import all_settings
from tests.docs.test_examples import ROOT

PAGE = ROOT / "docs/howto/heritrix.md"
CLASSES = """
ActionDirectory AntiCalendarCostAssignmentPolicy AssignmentLevelSurtQueueAssignmentPolicy BaseQueuePrecedencePolicy
BaseUriPrecedencePolicy BdbFrontier BdbUriUniqFilter BloomUriUniqFilter BucketQueueAssignmentPolicy
CostUriPrecedencePolicy CrawlLimitEnforcer DecideRuledSheetAssociation DiskFPMergeUriUniqFilter DiskSpaceMonitor
DispositionProcessor FPMergeUriUniqFilter FPUriUniqFilter FixupQueryString FrontierPreparer
HighestUriQueuePrecedencePolicy HopsUriPrecedencePolicy HostnameQueueAssignmentPolicy
HostnameQueueAssignmentPolicyWithLimits IPQueueAssignmentPolicy LowercaseRule MemFPMergeUriUniqFilter MemUriUniqFilter
NoopUriUniqFilter PreloadedUriPrecedencePolicy QuotaEnforcer RegexRule RulesCanonicalizationPolicy RuntimeLimitEnforcer
Sheet SourceQuotaEnforcer StripExtraSlashes StripSessionCFIDs StripSessionIDs StripUserinfoRule StripWWWNRule
StripWWWRule SuccessCountsQueuePrecedencePolicy SurtAuthorityQueueAssignmentPolicy
SurtAuthorityQueueAssignmentPolicyWithLimits SurtPrefixesSheetAssociation TextSeedModule
URIAuthorityBasedQueueAssignmentPolicy UnitCostAssignmentPolicy WagCostAssignmentPolicy WorkQueueFrontier
AbstractFrontier ZeroCostAssignmentPolicy
"""
PROPERTIES = """
balanceReplenishAmount errorPenaltyAmount queueTotalBudget queuePrecedencePolicy precedenceFloor snoozeLongMs
uriUniqFilter largestQueuesCount maxQueuesPerReportCategory dumpPendingAtClose retryDelaySeconds maxRetries
recoveryLogEnabled maxOutlinks extractIndependently extract404s delayFactor minDelayMs maxDelayMs forceRetire
respectCrawlDelayUpToSeconds maxPerHostBandwidthUsageKbSec preferenceDepthHops preferenceEmbedHops deferToPrevious
parallelQueues parallelQueuesRandomAssignment forceQueueAssignment maxBytesDownload maxNovelBytes maxNovelUrls
maxWarcNovelUrls maxWarcNovelBytes maxDocumentsDownload maxTimeSeconds sourceTagSeeds blockAwaitingSeedLines
pauseThresholdMiB monitorPaths incrementCounts navlinksOnly basePrecedence
"""
ROWS = [
    line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\|.*\|.*\|.*\|$", line)
]


def test_every_class_and_property_of_the_frontier_is_in_the_table() -> None:
    named = {word for row in ROWS for code in re.findall(r"`([^`]+)`", row[0]) for word in re.findall(r"\w+", code)}
    assert [name for name in [*CLASSES.split(), *PROPERTIES.split()] if name not in named] == []


def test_every_test_that_the_table_names_exists() -> None:
    named = [test for row in ROWS for test in re.findall(r"`(tests/[^`]+)`", row[-1])]
    assert len(named) > 50
    missing = []
    for test in named:
        file, _, function = test.partition("::")
        path = ROOT / file
        if not path.exists() or not re.search(rf"def {function}\(", path.read_text(encoding="utf-8")):
            missing.append(test)
    assert missing == []


def test_every_setting_that_the_table_names_exists() -> None:
    known = {row.name for row in all_settings(Settings)}
    named = [name for row in ROWS for name in re.findall(r"`((?:frontier|fetch|links|limits|output)\.[\w.]+)", row[1])]
    assert len(named) > 30
    assert [
        name for name in named if name not in known and not any(each.startswith(f"{name}.") for each in known)
    ] == []
