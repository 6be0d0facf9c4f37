//! The canonical form of plain URLs. `policies/canonicalization.py` (class Canonicalization) is the definition.

use std::collections::HashSet;

/// What a byte of a path or query is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The URL parser or the canonical form may change it.
    Other,
    Plain,
    /// Plain, but that depends on the byte before it, or it has a meaning.
    Mark,
}

/// The bytes that neither the URL parser nor the canonical form changes in a path or query.
pub struct PlainBytes([Kind; 256]);

impl PlainBytes {
    pub fn new(plain: &[u8]) -> Self {
        let mut table = [Kind::Other; 256];
        for &byte in plain.iter().filter(|byte| byte.is_ascii()) {
            table[usize::from(byte)] = if matches!(byte, b'.' | b'?') { Kind::Mark } else { Kind::Plain };
        }
        Self(table)
    }

    /// Return where the query of a path and query begins, its length if there is none. None if the URL is not plain:
    /// it has another byte, or a segment that starts with a dot.
    pub fn query_of(&self, rest: &[u8]) -> Option<usize> {
        let mut query = rest.len();
        for (place, &byte) in rest.iter().enumerate() {
            match self.0[usize::from(byte)] {
                Kind::Plain => {}
                Kind::Mark if byte == b'?' => query = query.min(place),
                Kind::Mark if place > 0 && rest[place - 1] == b'/' => return None,
                Kind::Mark => {}
                Kind::Other => return None,
            }
        }
        Some(query)
    }
}

type Names = HashSet<Vec<u8>>;

/// Which arguments of a query count: `QueryRules` of the Python engine.
pub struct QueryRules {
    /// Names that are dropped, in lower case.
    pub dropped: Names,
    /// Beginnings of names that are dropped, in lower case.
    pub prefixes: Vec<Vec<u8>>,
    /// Names that are dropped, as they are written.
    pub ignored: Names,
    /// The only names that are kept, as they are written; all, if it is empty.
    pub kept: Names,
    pub sorts: bool,
    pub strips_sessions: bool,
}

impl QueryRules {
    /// Append the canonical form of a query of plain bytes, with its "?"; nothing if no argument is left.
    pub fn append(&self, query: &[u8], form: &mut Vec<u8>) {
        let mut arguments: Vec<&[u8]> =
            query.split(|&byte| byte == b'&').filter(|argument| !argument.is_empty() && self.keeps(argument)).collect();
        if self.sorts {
            arguments.sort_unstable();
        }
        let mut mark = b'?';
        for argument in arguments {
            form.push(mark);
            form.extend_from_slice(argument);
            mark = b'&';
        }
    }

    fn keeps(&self, argument: &[u8]) -> bool {
        let end = argument.iter().position(|&byte| byte == b'=').unwrap_or(argument.len());
        let (name, value) = (&argument[..end], argument.get(end + 1..).unwrap_or_default());
        let lower = name.to_ascii_lowercase();
        if self.dropped.contains(&lower)
            || self.prefixes.iter().any(|prefix| lower.starts_with(prefix))
            || self.ignored.contains(name)
            || (!self.kept.is_empty() && !self.kept.contains(name))
        {
            return false;
        }
        let is_session = lower == b"sid" && value.len() == 32 && value.iter().all(u8::is_ascii_alphanumeric);
        !(self.strips_sessions && is_session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(given: &[&str]) -> Names {
        given.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn form(rules: &QueryRules, query: &str) -> String {
        let mut form = Vec::new();
        rules.append(query.as_bytes(), &mut form);
        String::from_utf8(form).unwrap()
    }

    #[test]
    fn arguments_are_dropped_and_sorted() {
        let rules = QueryRules {
            dropped: names(&["gclid"]),
            prefixes: vec![b"utm_".to_vec()],
            ignored: names(&["ref"]),
            kept: Names::new(),
            sorts: true,
            strips_sessions: true,
        };
        assert_eq!(form(&rules, "b=2&&a=1&UTM_x=1&gClid=3&ref=1&Ref=2"), "?Ref=2&a=1&b=2");
        assert_eq!(form(&rules, &format!("sid={}&sid=1", "0".repeat(32))), "?sid=1");
        assert_eq!(form(&rules, "utm_source=x"), "");
    }

    #[test]
    fn only_plain_bytes_are_plain() {
        let plain = PlainBytes::new(b"abc./?=&");
        assert_eq!(plain.query_of(b"/a.b"), Some(4));
        assert_eq!(plain.query_of(b"/a?b?c"), Some(2));
        assert_eq!(plain.query_of(b"/a/.b"), None);
        assert_eq!(plain.query_of(b"/a%20"), None);
    }

    /// Return a text made of random pieces, the same in each run.
    fn drawn(state: &mut u64, pieces: &[&[u8]]) -> Vec<u8> {
        let mut next = || {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            *state as usize
        };
        (0..next() % 12).flat_map(|_| pieces[next() % pieces.len()]).copied().collect()
    }

    #[test]
    fn whatever_a_query_is_its_form_has_itself_as_form() {
        let session = format!("sid={}", "0".repeat(32));
        let pieces: [&[u8]; 13] =
            [b"&", b"&", b"=", b"=", b"a", b"B", b"?", b"utm_", b"UTM_", b"ref", b"\xff", b"\0", session.as_bytes()];
        let mut state = 1;
        for number in 0..50_000 {
            let rules = QueryRules {
                dropped: names(&["a"]),
                prefixes: vec![b"utm_".to_vec()],
                ignored: names(&["ref"]),
                kept: if number % 3 == 0 { names(&["B", "sid"]) } else { Names::new() },
                sorts: number % 2 == 0,
                strips_sessions: number % 5 == 0,
            };
            let query = drawn(&mut state, &pieces);
            let (mut form, mut again) = (Vec::new(), Vec::new());
            rules.append(&query, &mut form);
            assert!(form.is_empty() || form[0] == b'?');
            rules.append(form.get(1..).unwrap_or_default(), &mut again);
            assert_eq!(form, again, "{query:?}");
        }
    }

    #[test]
    fn whatever_a_path_is_plain_is_what_its_definition_says() {
        let pieces: [&[u8]; 9] = [b"/", b".", b"/.", b"?", b"a", b"b", b"%", b"\xff", b"\xc3\xa9"];
        let mut state = 2;
        for number in 0..50_000 {
            let plain: &[u8] = if number % 2 == 0 { b"ab/.?" } else { b"a/\xff" };
            let rest = drawn(&mut state, &pieces);
            let is_plain = rest.iter().all(|byte| byte.is_ascii() && plain.contains(byte))
                && !rest.windows(2).any(|two| two == b"/.");
            let query = rest.iter().position(|&byte| byte == b'?').unwrap_or(rest.len());
            assert_eq!(PlainBytes::new(plain).query_of(&rest), is_plain.then_some(query), "{rest:?}");
        }
    }
}
