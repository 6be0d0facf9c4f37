//! Keys and values of pending records. `storage/keys.py` and `storage/uri_values.py` are the definition.

use crate::msgpack::{self, Reader, append_text};

/// What a value begins with unless it is that of a plain URL: no attempts, no deliveries.
const FRESH: [u8; 4] = [0; 4];
/// The default values of the fields between URL and payload: `_BEFORE_PAYLOAD`.
const BEFORE_PAYLOAD: &[u8] = b"\xc0\xa0\xc0\xa3GET\xc0\xc4\0\xc0";
/// The fields before the method.
const BEFORE_METHOD: usize = 4;
/// Bytes of a key that its URI alone determines: directive, inverted priority, cost.
pub type Rank = [u8; 9];
pub type Key = [u8; 21];
/// The inverted form of priority 0: `rules/uri_order.py`.
pub const PRIORITY_ZERO: u32 = 1 << 31;

/// Return the inverted form of a priority: copies `uri_order.inverted`.
pub fn inverted(priority: i64) -> u32 {
    i64::from(PRIORITY_ZERO).saturating_sub(priority).clamp(0, i64::from(u32::MAX)) as u32
}

/// Return the key of a URI without a precedence of its own. `priority` is in its inverted form, and replaces that of the
/// rank.
pub fn key(queue: u32, rank: Rank, priority: u32, arrival: u64) -> Key {
    let mut key = [0; 21];
    key[..4].copy_from_slice(&queue.to_be_bytes());
    key[4..13].copy_from_slice(&rank);
    key[5..9].copy_from_slice(&priority.to_be_bytes());
    key[13..].copy_from_slice(&arrival.to_be_bytes());
    key
}

/// The first bytes of the values of plain URLs, with their schemes: `PLAIN`.
const PLAIN: [(u8, &str); 2] = [(0xff, "https://"), (0xfe, "http://")];
const PLAIN_FROM: u8 = 0xfe;
/// What replaces scheme and host of a URL if the host is the key of its queue.
const SCHEMES: [(&str, &str); 2] = [("https://", "\u{2}"), ("http://", "\u{1}")];
const WHOLE: &str = "\0";

/// Return the stored form of a URL in a queue, in two parts: `shorten`.
pub fn shorten<'a>(url: &'a str, queue: &str) -> (&'static str, &'a str) {
    for (scheme, mark) in SCHEMES {
        if let Some(rest) = url.strip_prefix(scheme) {
            let path = rest.strip_prefix(queue).filter(|path| path.starts_with('/'));
            return path.map_or(("", url), |path| (mark, path));
        }
    }
    (if url.as_bytes().first().is_some_and(|first| *first <= 2) { WHOLE } else { "" }, url)
}

/// Return the URL that `shorten` made this form from: `expand`.
pub fn expand(short: &str, queue: &str) -> String {
    match SCHEMES.iter().find(|(_, mark)| short.starts_with(mark)) {
        Some((scheme, _)) => [scheme, queue, &short[1..]].concat(),
        None => short.strip_prefix(WHOLE).unwrap_or(short).to_owned(),
    }
}

/// The page on which a URL was found, and the hops to it; both may be missing.
#[derive(Clone, Copy, Default)]
pub struct Found<'a> {
    pub via: Option<&'a str>,
    pub hops: &'a str,
}

/// Append the value of a URL in a queue, whose short form is given in two parts.
pub fn append_value(mark: Option<u8>, short: [&[u8]; 2], found: Found<'_>, queue: &str, value: &mut Vec<u8>) {
    let fields = match (found.via, found.hops) {
        (None, "") => 1,
        (Some(_), "") => 2,
        _ => 3,
    };
    if let Some(mark) = mark.filter(|_| fields == 1) {
        value.push(mark);
        value.extend_from_slice(short[1]);
        return;
    }
    value.extend_from_slice(&FRESH);
    msgpack::append_array(fields, value);
    append_text(&short, value);
    match found.via.map(|via| shorten(via, queue)) {
        Some((mark, rest)) => append_text(&[mark.as_bytes(), rest.as_bytes()], value),
        None if fields > 1 => msgpack::append_nil(value),
        None => {}
    }
    if fields > 2 {
        append_text(&[found.hops.as_bytes()], value);
    }
}

/// Return the short forms of a URL without attempts, and of the page on which it was found, with the hops, from a value
/// that is no plain one; None if there is more in it.
fn read_found(value: &[u8]) -> Option<(&str, Found<'_>)> {
    let mut reader = Reader(value.strip_prefix(&FRESH)?);
    let fields = reader.array().filter(|fields| (1..=3).contains(fields))?;
    let (short, mut found) = (reader.text()?, Found::default());
    if fields > 1 && !reader.nil() {
        found.via = Some(reader.text()?);
    }
    if fields > 2 {
        found.hops = reader.text()?;
    }
    reader.0.is_empty().then_some((short, found))
}

/// The page on which a URL was found, if it is known, and the hops to the URL.
pub type Page<'a> = (Option<String>, &'a str);

/// Return the URL of a pending record, and the page on which it was found with the hops, if these are all that it has
/// beside, and it was never attempted: `restore_pending`.
pub fn url<'a>(value: &'a [u8], queue: &str) -> Option<(String, Option<Page<'a>>)> {
    if let Some(url) = plain_url(value, queue) {
        return Some((url, None));
    }
    let (short, found) = read_found(value)?;
    Some((expand(short, queue), Some((found.via.map(|via| expand(via, queue)), found.hops))))
}

/// Return how often the URI of a value was attempted, and how often it was delivered without an end: `tries`.
pub fn tries(value: &[u8]) -> Option<(u16, u16)> {
    if value.first()? >= &PLAIN_FROM {
        return Some((0, 0));
    }
    let [a, b, c, d] = *value.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Return the URL of a pending record if that alone identifies the URI: `identifying_url` of `rules/duplicates.py`.
///
/// None for one with a method or a body, and for some with headers.
pub fn identifying_url(value: &[u8], queue: &str) -> Option<String> {
    if let Some(url) = plain_url(value, queue) {
        return Some(url);
    }
    let mut reader = Reader(value.get(FRESH.len()..)?);
    let (fields, short) = (reader.array()?, reader.text()?);
    (fields <= BEFORE_METHOD || reader.0.starts_with(BEFORE_PAYLOAD)).then(|| expand(short, queue))
}

fn plain_url(value: &[u8], queue: &str) -> Option<String> {
    let (first, rest) = value.split_first()?;
    let (_, scheme) = PLAIN.iter().find(|(mark, _)| mark == first)?;
    Some([scheme, queue, std::str::from_utf8(rest).ok()?].concat())
}

/// Append the value of a URL that has a payload and nothing else: `encode_carrying`.
pub fn append_carrying(short: [&[u8]; 2], payload: &[u8], value: &mut Vec<u8>) {
    value.extend_from_slice(&FRESH);
    msgpack::append_array(9, value);
    append_text(&short, value);
    value.extend_from_slice(BEFORE_PAYLOAD);
    msgpack::append_bytes(payload, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_python_engine() {
        let appended = |mark, short, via, hops| {
            let mut value = Vec::new();
            append_value(mark, short, Found { via, hops }, "a", &mut value);
            value
        };
        assert_eq!(appended(Some(0xff), [b"\x02", b"/a"], None, ""), b"\xff/a");
        assert_eq!(appended(None, [b"http://a", b"/b"], None, ""), b"\0\0\0\0\x91\xaahttp://a/b");
        let found = appended(Some(0xff), [b"\x02", b"/a"], Some("https://a/"), "L");
        assert_eq!(found, b"\0\0\0\0\x93\xa3\x02/a\xa2\x02/\xa1L");
        let found = appended(Some(0xff), [b"\x02", b"/a"], Some("http://b/"), "");
        assert_eq!(found, b"\0\0\0\0\x92\xa3\x02/a\xa9http://b/");
        assert_eq!(appended(Some(0xff), [b"\x02", b"/a"], None, "R"), b"\0\0\0\0\x93\xa3\x02/a\xc0\xa1R");
        let long = [b'a'; 300];
        assert_eq!(appended(None, [b"", &long[..200]], None, "")[4..7], [0x91, 0xd9, 200]);
        assert_eq!(appended(None, [b"", &long], None, "")[4..8], [0x91, 0xda, 1, 44]);
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        for (via, hops) in [(None, ""), (None, "R"), (Some("http://b/"), ""), (Some("https://a/\u{e4}"), "LL")] {
            let mut value = Vec::new();
            append_value(None, [b"", b"http://a/b"], Found { via, hops }, "a", &mut value);
            let (short, found) = read_found(&value).expect("it has nothing else");
            assert_eq!(
                (short, found.via.map(|via| expand(via, "a")).as_deref(), found.hops),
                ("http://a/b", via, hops)
            );
            value[1] = 1; // it was attempted
            assert!(read_found(&value).is_none());
        }
        assert!(read_found(b"\0\0\0\0\x94\xa1a\xc0\xa0\xa5label").is_none());
        assert!(read_found(b"\0\0\0\0\x91\xa1ab").is_none());
    }

    #[test]
    fn a_url_is_read_unless_there_is_a_method_or_a_body() {
        let carrying = |fields: &[u8]| [b"\0\x01\0\0\x99\xa3\x02/a", fields, b"\xc4\x01x"].concat();
        for value in [&b"\xff/a"[..], b"\0\x01\0\x02\x94\xa3\x02/a\xc0\xa0\xa1x", &carrying(BEFORE_PAYLOAD)] {
            assert_eq!(identifying_url(value, "a").as_deref(), Some("https://a/a"));
        }
        for others in [&b"\xc0\xa0\xc0\xa4POST\xc0\xc4\0\xc0"[..], b"\xc0\xa0\xc0\xa3GET\xc0\xc4\x01a\xc0"] {
            assert_eq!(identifying_url(&carrying(others), "a"), None);
        }
        assert_eq!(identifying_url(b"", "a").or(identifying_url(b"\0\0\0\0", "a")), None);
    }

    #[test]
    fn urls_come_back_from_their_short_forms() {
        for url in ["http://a/b", "https://a/", "https://ab/", "ftp://a/", "", "\0x", "\u{2}/", "http://a", "\u{e4}"] {
            let (mark, rest) = shorten(url, "a");
            assert_eq!(expand(&[mark, rest].concat(), "a"), url);
        }
        assert_eq!((shorten("https://a/b", "a"), shorten("\u{1}", "a")), (("\u{2}", "/b"), ("\0", "\u{1}")));
    }

    #[test]
    fn payloads_of_all_lengths_follow_the_defaults() {
        for (length, head) in [(3, &b"\xc4\x03"[..]), (300, b"\xc5\x01\x2c"), (1 << 16, b"\xc6\0\x01\0\0")] {
            let (payload, mut value) = (vec![7; length], Vec::new());
            append_carrying([b"\x02", b"/a"], &payload, &mut value);
            let expected = [b"\0\0\0\0\x99\xa3\x02/a", BEFORE_PAYLOAD, head, &payload].concat();
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn tries_are_those_of_the_python_engine() {
        assert_eq!(tries(b"\xfe/"), Some((0, 0)));
        assert_eq!(tries(b"\x01\x02\0\x03\x91\xa1a"), Some((258, 3)));
        assert_eq!(tries(b"\0\0\0").or(tries(b"")), None);
    }

    #[test]
    fn priorities_are_within_32_bits() {
        for (priority, expected) in [(0, 1 << 31), (5, (1 << 31) - 5), (1 << 31, 0), (i64::MAX, 0)] {
            assert_eq!(inverted(priority), expected);
        }
        assert_eq!((inverted(1 - (1 << 31)), inverted(i64::MIN)), (u32::MAX, u32::MAX));
    }

    #[test]
    fn keys_sort_by_queue_rank_and_arrival() {
        assert!(key(1, [0; 9], 0, u64::MAX) < key(2, [0; 9], 0, 0));
        assert!(key(1, [0; 9], 0, 1) < key(1, [0, 0, 0, 0, 0, 0, 0, 0, 1], 0, 0));
        assert!(key(1, [0, 0, 0, 0, 0, 0, 0, 0, 1], inverted(1), 1) < key(1, [0; 9], inverted(0), 0));
    }
}
