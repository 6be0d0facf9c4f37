//! The parts of admission that need no Python: plain URLs, their canonical forms, and what is stored of them.

#![no_main]
#![allow(dead_code)] // of the modules

#[path = "../../../budgetfrontier/engine/native/src/canonical.rs"]
mod canonical;
#[path = "../../../budgetfrontier/engine/native/src/msgpack.rs"]
mod msgpack;
#[path = "../../../budgetfrontier/engine/native/src/records.rs"]
mod records;

use std::str;
use std::sync::LazyLock;

use canonical::{PlainBytes, QueryRules};
use libfuzzer_sys::{Corpus, fuzz_target};
use records::Found;

static PLAIN: LazyLock<PlainBytes> =
    LazyLock::new(|| PlainBytes::new(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_~./-?=&:+,!*$@"));

/// Rules with each option of the standard ones, and with none.
static RULES: LazyLock<[QueryRules; 3]> = LazyLock::new(|| {
    let names = |given: &[&str]| given.iter().map(|name| name.as_bytes().to_vec()).collect();
    let rules = |dropped: &[&str], prefix: &[&str], ignored: &[&str], kept: &[&str], strict| QueryRules {
        dropped: names(dropped),
        prefixes: prefix.iter().map(|prefix| prefix.as_bytes().to_vec()).collect(),
        ignored: names(ignored),
        kept: names(kept),
        sorts: strict,
        strips_sessions: strict,
    };
    [
        rules(&["gclid", "cfid", "phpsessid"], &["utm_", "aspsessionid"], &["a"], &[], true),
        rules(&["gclid"], &["utm_"], &[], &["a", "sid"], true),
        rules(&[], &[], &[], &[], false),
    ]
});

fuzz_target!(|raw: &[u8]| -> Corpus {
    let Some(slash) = raw.iter().skip(8).position(|&byte| byte == b'/').map(|place| place + 8) else {
        return Corpus::Reject;
    };
    let (authority, rest) = raw.split_at(slash);
    check_forms(rest);
    check_records(authority, rest);
    Corpus::Keep
});

/// A plain path and query has one form, which is plain and its own form.
fn check_forms(rest: &[u8]) {
    let Some(query) = PLAIN.query_of(rest) else { return };
    for rules in RULES.iter() {
        let formed = |rest: &[u8], query: usize| {
            let mut form = rest[..query].to_vec();
            rules.append(rest.get(query + 1..).unwrap_or_default(), &mut form);
            form
        };
        let form = formed(rest, query);
        assert_eq!(PLAIN.query_of(&form), Some(query));
        assert_eq!(formed(&form, query), form);
        assert!(form.len() <= rest.len());
    }
}

/// What is stored of a URL is read as it was written; and bytes that are no record are no panic.
fn check_records(authority: &[u8], rest: &[u8]) {
    records::url(rest, "other.test");
    let (Ok(authority), Ok(rest)) = (str::from_utf8(authority), str::from_utf8(rest)) else { return };
    let url = [authority, rest].concat();
    let host = authority.rsplit("//").next().unwrap_or_default();
    for queue in [host, "other.test", ""] {
        let (mark, short) = records::shorten(&url, queue);
        assert_eq!(records::expand(&[mark, short].concat(), queue), url);
        for (via, hops) in [(None, ""), (Some(url.as_str()), ""), (Some(rest), authority)] {
            let mut value = Vec::new();
            records::append_value(None, [mark.as_bytes(), short.as_bytes()], Found { via, hops }, queue, &mut value);
            let stored = records::url(&value, queue).expect("it has nothing else");
            assert_eq!(stored, (url.clone(), Some((via.map(str::to_owned), hops))));
        }
    }
}
