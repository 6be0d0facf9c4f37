"""Names that other crawlers have for our settings and commands, which similar letters would take for others of ours.

The words are those of Scrapy, Heritrix, Nutch and StormCrawler, wget and curl, and browsertrix, with some that are
simply near. Case and separators do not count: `DOWNLOAD_DELAY`, `fetcher.server.delay`, `scopeType`, `--wait`.
"""

from __future__ import annotations

import re
from functools import cache

_WORDS = {
    "crawl": "bot_name job_name crawl_name collection name",
    "seeds": "start_urls start_url seed seed_urls seed_file seed_list url urls input_file",
    "scope.accept": "scope_type allowed_domains allow domains include includes accept_regex include_directories "
    "ignore_external_links span_hosts no_parent page_requisites requisites embeds max_trans_hops whitelist allowlist",
    "scope.reject": "deny denied deny_domains exclude excludes exclude_domains exclude_directories reject_regex "
    "disallow blacklist blocklist block",
    "scope.max_hops": "depth max_depth depth_limit level link_depth max_link_hops recursion_level max_distance",
    "frontier.politeness.min_delay": "delay download_delay crawl_delay wait sleep throttle request_delay host_delay "
    "min_delay_ms politeness_delay fetcher_server_delay fetcher_server_min_delay page_extra_delay "
    "autothrottle_start_delay",
    "frontier.politeness.max_delay": "max_delay_ms autothrottle_max_delay",
    "frontier.politeness.respect_crawl_delay_up_to": "respect_crawl_delay_up_to_seconds fetcher_max_crawl_delay "
    "max_crawl_delay respect_crawl_delay",
    "frontier.politeness.jitter": "randomize_download_delay random_wait",
    "frontier.politeness.per_queue_concurrency": "concurrent_requests_per_domain concurrent_requests_per_ip per_host "
    "fetcher_threads_per_queue threads_per_queue threads_per_host max_per_host max_connections_per_host "
    "parallel_queues",
    "frontier.retry.max_retries": "retries max_retry retry_times tries db_fetch_retry_max max_attempts",
    "frontier.retry.delay": "retry_delay retry_delay_seconds wait_retry retry_wait",
    "frontier.retry.statuses": "codes status_codes retry_codes retry_http_codes",
    "frontier.retry.status_delay": "status_wait error_delay http_error_delay",
    "frontier.revisit.after": "recrawl revisit_interval fetch_interval db_fetch_interval_default recrawl_interval",
    "frontier.queue_total_budget": "budget total_budget queue_budget max_pages_per_host max_urls_per_host "
    "max_uris_per_host pages_per_host max_pages_per_domain host_budget quota_enforcer generate_max_count",
    "frontier.balance_replenish_amount": "replenish replenish_amount session_budget session_balance",
    "frontier.queue_assignment_policy": "queue_assignment fetcher_queue_mode partition_url_mode queue_mode group_by",
    "frontier.cost_policy": "cost cost_assignment_policy",
    "frontier.uri_precedence_policy": "uri_precedence",
    "frontier.order": "queue_order depth_priority lifo bfs dfs depth_first breadth_first",
    "frontier.lease_ttl": "ttl lease_timeout lease_seconds visibility_timeout",
    "frontier.canonicalization": "dedup dupefilter dupefilter_class url_normalization urlnormalizer canonicalize",
    "frontier.target_active": "target_ready_backlog target_ready_queues workbench front_size",
    "frontier.max_queue_size": "max_queue_length queue_size",
    "frontier.max_queued": "max_pending",
    "fetch.user_agent": "agent http_agent_name user_agent_template user_agent_suffix operator_contact_url "
    "operator_from http_agent_url http_agent_email",
    "fetch.robots_name": "robotstxt_user_agent http_robots_agents robots_agent robots_user_agent product_token",
    "fetch.concurrency": "concurrent_requests threads workers toe_threads max_toe_threads fetcher_threads_fetch "
    "fetcher_threads_number parallel max_connections max_concurrency num_threads",
    "fetch.robots": "robotstxt_obey robots_policy robots_policy_name robots_honoring_policy robots_txt obey_robots "
    "respect_robots ignore_robots no_robots",
    "output.noindex": "meta_robots robots_tags robots_meta",
    "fetch.timeout": "download_timeout http_timeout timeout_seconds request_timeout page_load_timeout read_timeout",
    "fetch.first_byte_timeout": "sotimeout_ms",
    "fetch.max_body": "download_maxsize max_length_bytes http_content_limit max_content_length max_size max_page_size",
    "fetch.max_header": "max_header_size",
    "fetch.requests": "headers header request_headers default_request_headers cookies cookie load_cookies username "
    "password http_user http_password credentials authentication",
    "fetch.proxy": "http_proxy https_proxy http_proxy_host proxy_server proxy_url proxy_host",
    "fetch.verify_tls": "verify_ssl ssl_verify verify insecure check_certificate no_check_certificate trust_level",
    "fetch.dns_ttl": "dns_cache dnscache_enabled dns_cache_ttl",
    "fetch.resolve": "hosts host_map dns",
    "fetch.allow_private": "allow_local allow_private_ips allow_localhost",
    "limits.max_uris": "limit max_pages page_limit max_urls max_requests max_fetches max_documents "
    "closespider_pagecount max_documents_download",
    "limits.max_time": "time_limit max_seconds max_minutes max_hours max_time_seconds closespider_timeout "
    "max_duration duration",
    "limits.max_bytes": "quota size_limit max_mb max_gb max_bytes_download max_download",
    "output.sinks": "sink item_pipelines pipelines pipeline callback handler",
    "output.warc": "archive warc_file save_warc generate_wacz combine_warc",
    "output.warc_size": "rollover_size max_file_size_bytes warc_max_size",
    "output.warc_prefix": "prefix",
    "output.warc_operator": "operator publisher organization",
    "output.warc_description": "description",
    "output.links": "outlinks",
    "output.pages": "feed_uri feed_format items jsonl",
    "output.statistics": "stats_interval statistics_interval",
    "reports.every": "logstats_interval report_interval",
    "links.sitemaps": "sitemap sitemap_urls sitemap_discovery use_sitemap",
    "links.rel_nofollow": "follow_nofollow",
    "links.max_per_page": "max_outlinks db_max_outlinks_per_page max_links_per_page",
    "cluster.kafka": "bootstrap_servers brokers broker",
    "hooks": "extensions listeners signals",
}
IN_PLACE = {
    "frontier.politeness.factor": "frontier.politeness.delay_factor",
    "limits.pages": "limits.max_uris",
    "output.max_size": "output.warc_size",
}
"""The settings that are meant by names which mean others, or nothing, in other sections."""
_FOLDER = "the folder is no setting: `budgetfrontier crawl CONFIG --job DIR` names it"
_ELSEWHERE = {
    "dir directory job_dir jobs_dir output_dir output_folder directory_prefix cwd path": _FOLDER,
    "resume continue no_clobber": "this is no setting: a crawl that is started again on its folder continues",
    "log_level log_file logging": "logs are no setting: they are in the folder of the job, in logs/",
}


_COMMANDS = {
    "--help": "help usage man",
    "--version": "version",
    "report": "status stat stats state info summary statistics",
    "queues": "list ls hosts domains",
    "crawl": "run start restart fetch go",
    "pause": "stop halt suspend",
    "resume": "continue unpause",
    "terminate": "kill abort cancel end finish",
    "undo": "revert",
    "compact": "compaction vacuum",
    "audit": "history log changes",
    "adjust": "set budget budgets override configure update",
    "snooze": "block delay",
    "sheet": "sheets overlay overlays",
    "delete": "purge remove rm clear",
    "check-config": "validate lint config checkconfig",
    "verify": "check fsck repair doctor",
    "console": "ui web dashboard gui",
    "top": "monitor watch",
    "init": "new create startproject",
    "import": "add load inject seed seeds enqueue schedule",
    "export": "dump",
    "dead-letters --replay": "replay",
    "dead-letters": "dead failed failures dlq",
}


def folded(word: str) -> str:
    """Return a name without case and separators: names that differ in these alone are one."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


@cache
def targets() -> dict[str, str]:
    """Return the settings that are meant, by their dotted names, for each folded word of another crawler."""
    return {folded(word): target for target, words in _WORDS.items() for word in words.split()}


def command(word: str) -> str:
    """Return the command that other tools call so, with its option, or an option alone; "" if none is known."""
    return next((name for name, words in _COMMANDS.items() if word.lower() in words.split()), "")


@cache
def elsewhere() -> dict[str, str]:
    """Return the advice for each folded word that means no setting."""
    return {folded(word): text for words, text in _ELSEWHERE.items() for word in words.split()}
