//! Keys and values of pending records. `storage/keys.py` and `storage/uri_values.py` are the definition.

use crate::msgpack::{self, append_text};

/// What a value begins with unless it is that of a plain URL: no attempts, no deliveries.
const FRESH: [u8; 4] = [0; 4];
/// The default values of the fields between URL and payload: `_BEFORE_PAYLOAD`.
const BEFORE_PAYLOAD: &[u8] = b"\xc0\xa0\xc0\xa3GET\xc0\xc4\0\xc0";
/// Bytes of a key that its URI alone determines: directive, inverted priority, cost.
pub type Rank = [u8; 9];
pub type Key = [u8; 21];

/// Return the key of a URI without a precedence of its own.
pub fn key(queue: u32, rank: Rank, arrival: u64) -> Key {
    let mut key = [0; 21];
    key[..4].copy_from_slice(&queue.to_be_bytes());
    key[4..13].copy_from_slice(&rank);
    key[13..].copy_from_slice(&arrival.to_be_bytes());
    key
}

/// Append the value of a URL, whose short form is given in two parts, and of the page it was found on with its hops.
pub fn append_value(mark: Option<u8>, short: [&[u8]; 2], found: Option<(&[u8], &[u8])>, value: &mut Vec<u8>) {
    match (found, mark) {
        (Some((page, hops)), _) => {
            value.extend_from_slice(&FRESH);
            value.push(0x93); // an array of three
            append_text(&short, value);
            append_text(&[page], value);
            append_text(&[hops], value);
        }
        (None, Some(mark)) => {
            value.push(mark);
            value.extend_from_slice(short[1]);
        }
        (None, None) => {
            value.extend_from_slice(&FRESH);
            value.push(0x91);
            append_text(&short, value);
        }
    }
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
        let mut value = Vec::new();
        append_value(Some(0xff), [b"\x02", b"/a"], None, &mut value);
        assert_eq!(value, b"\xff/a");
        value.clear();
        append_value(None, [b"http://a", b"/b"], None, &mut value);
        assert_eq!(value, b"\0\0\0\0\x91\xaahttp://a/b");
        value.clear();
        append_value(Some(0xff), [b"\x02", b"/a"], Some((b"\x02/", b"L")), &mut value);
        assert_eq!(value, b"\0\0\0\0\x93\xa3\x02/a\xa2\x02/\xa1L");
        let long = [b'a'; 300];
        value.clear();
        append_value(None, [b"", &long[..200]], None, &mut value);
        assert_eq!(value[4..7], [0x91, 0xd9, 200]);
        value.clear();
        append_value(None, [b"", &long], None, &mut value);
        assert_eq!(value[4..8], [0x91, 0xda, 1, 44]);
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
    fn keys_sort_by_queue_rank_and_arrival() {
        assert!(key(1, [0; 9], u64::MAX) < key(2, [0; 9], 0));
        assert!(key(1, [0; 9], 1) < key(1, [0, 0, 0, 0, 0, 0, 0, 0, 1], 0));
    }
}
