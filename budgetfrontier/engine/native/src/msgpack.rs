//! The msgpack of records (https://github.com/msgpack/msgpack/blob/master/spec.md), as the encoder of Python writes it.

/// Append a text, given in parts.
pub fn append_text(parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length < 32 {
        out.push(0xa0 | length as u8);
    } else if let Ok(length) = u8::try_from(length) {
        out.extend_from_slice(&[0xd9, length]);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(0xda);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(0xdb);
        out.extend_from_slice(&u32::try_from(length).expect("a text of 4 GiB").to_be_bytes());
    }
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Append bytes.
pub fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let length = bytes.len();
    if let Ok(length) = u8::try_from(length) {
        out.extend_from_slice(&[0xc4, length]);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(0xc5);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(0xc6);
        out.extend_from_slice(&u32::try_from(length).expect("bytes of 4 GiB").to_be_bytes());
    }
    out.extend_from_slice(bytes);
}

/// Append a whole number in as few bytes as it needs.
pub fn append_int(number: i64, out: &mut Vec<u8>) {
    if (-32..128).contains(&number) {
        out.push(number as u8);
    } else if number >= 0 {
        if let Ok(number) = u8::try_from(number) {
            out.extend_from_slice(&[0xcc, number]);
        } else if let Ok(number) = u16::try_from(number) {
            out.push(0xcd);
            out.extend_from_slice(&number.to_be_bytes());
        } else if let Ok(number) = u32::try_from(number) {
            out.push(0xce);
            out.extend_from_slice(&number.to_be_bytes());
        } else {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
    } else if let Ok(number) = i8::try_from(number) {
        out.extend_from_slice(&[0xd0, number as u8]);
    } else if let Ok(number) = i16::try_from(number) {
        out.push(0xd1);
        out.extend_from_slice(&number.to_be_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        out.push(0xd2);
        out.extend_from_slice(&number.to_be_bytes());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

pub fn append_float(number: f64, out: &mut Vec<u8>) {
    out.push(0xcb);
    out.extend_from_slice(&number.to_be_bytes());
}

pub fn append_bool(value: bool, out: &mut Vec<u8>) {
    out.push(if value { 0xc3 } else { 0xc2 });
}

pub fn append_nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

/// Append a whole number of at least 0 that may have 64 bits.
pub fn append_uint(number: u64, out: &mut Vec<u8>) {
    if let Ok(number) = i64::try_from(number) {
        append_int(number, out);
    } else {
        out.push(0xcf);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Append the head of an array of less than 16 items.
pub fn append_array(length: u8, out: &mut Vec<u8>) {
    out.push(0x90 | length);
}

/// Append the head of a map of less than 16 items.
pub fn append_map(length: u8, out: &mut Vec<u8>) {
    out.push(0x80 | length);
}

/// Append the head of an array of 16 to 65,535 items.
pub fn append_long_array(length: u16, out: &mut Vec<u8>) {
    out.push(0xdc);
    out.extend_from_slice(&length.to_be_bytes());
}

/// Reads values one after the other. None where the next one is of another kind, or is not whole.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// Return the next byte, and stay before it.
    fn mark(&self) -> Option<u8> {
        self.0.first().copied()
    }

    pub fn long_array(&mut self) -> Option<u16> {
        let [mark] = self.take()?;
        (mark == 0xdc).then_some(())?;
        Some(u16::from_be_bytes(self.take()?))
    }

    /// Return the number of items of a short array.
    pub fn array(&mut self) -> Option<usize> {
        let [mark] = self.take()?;
        (mark & 0xf0 == 0x90).then_some(usize::from(mark & 15))
    }

    /// Return the number of items of a short map.
    pub fn map(&mut self) -> Option<usize> {
        let [mark] = self.take()?;
        (mark & 0xf0 == 0x80).then_some(usize::from(mark & 15))
    }

    /// Return a number of at least 0 that may have 64 bits.
    pub fn uint(&mut self) -> Option<u64> {
        if self.mark()? == 0xcf {
            self.take::<1>()?;
            return Some(u64::from_be_bytes(self.take()?));
        }
        u64::try_from(self.int()?).ok()
    }

    pub fn int(&mut self) -> Option<i64> {
        let [mark] = self.take()?;
        Some(match mark {
            0x00..=0x7f => i64::from(mark),
            0xe0..=0xff => i64::from(mark as i8),
            0xcc => i64::from(self.take::<1>()?[0]),
            0xcd => i64::from(u16::from_be_bytes(self.take()?)),
            0xce => i64::from(u32::from_be_bytes(self.take()?)),
            0xcf => i64::try_from(u64::from_be_bytes(self.take()?)).ok()?,
            0xd0 => i64::from(self.take::<1>()?[0] as i8),
            0xd1 => i64::from(i16::from_be_bytes(self.take()?)),
            0xd2 => i64::from(i32::from_be_bytes(self.take()?)),
            0xd3 => i64::from_be_bytes(self.take()?),
            _ => return None,
        })
    }

    /// Return a number that may be whole.
    pub fn float(&mut self) -> Option<f64> {
        if self.mark()? == 0xcb {
            self.take::<1>()?;
            return Some(f64::from_be_bytes(self.take()?));
        }
        let whole = self.int()?;
        (whole.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS).then_some(whole as f64)
    }

    pub fn bool(&mut self) -> Option<bool> {
        match self.take()? {
            [0xc2] => Some(false),
            [0xc3] => Some(true),
            _ => None,
        }
    }

    /// Return whether nil was next; then it is passed over.
    pub fn nil(&mut self) -> bool {
        let found = self.mark() == Some(0xc0);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = match self.take()? {
            [0xc4] => usize::from(self.take::<1>()?[0]),
            [0xc5] => usize::from(u16::from_be_bytes(self.take()?)),
            _ => return None,
        };
        self.sized(length)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let [mark] = self.take()?;
        let length = match mark {
            0xa0..=0xbf => usize::from(mark & 31),
            0xd9 => usize::from(self.take::<1>()?[0]),
            0xda => usize::from(u16::from_be_bytes(self.take()?)),
            _ => return None,
        };
        std::str::from_utf8(self.sized(length)?).ok()
    }

    fn sized(&mut self, length: usize) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_in_as_few_bytes_as_they_need() {
        let bounds = [0, 127, 128, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32, i64::MAX];
        let lengths = [1, 1, 2, 2, 3, 3, 5, 5, 9, 9];
        let negative = [-1, -32, -33, -128, -129, -32_768, -32_769, -(1 << 31), -(1 << 31) - 1, i64::MIN];
        let lengths_below = [1, 1, 2, 2, 3, 3, 5, 5, 9, 9];
        for (number, length) in bounds.iter().zip(lengths).chain(negative.iter().zip(lengths_below)) {
            let mut out = Vec::new();
            append_int(*number, &mut out);
            assert_eq!((out.len(), Reader(&out).int()), (length, Some(*number)));
            assert_eq!(Reader(&out[..out.len() - 1]).int(), None);
        }
    }

    #[test]
    fn other_values_come_back() {
        let mut out = Vec::new();
        append_long_array(300, &mut out);
        append_float(1.5, &mut out);
        append_int(-3, &mut out);
        append_nil(&mut out);
        append_bool(true, &mut out);
        append_text(&[b"\xc3\xa4", b"b"], &mut out);
        append_bytes(&[7; 300], &mut out);
        let mut reader = Reader(&out);
        assert_eq!((reader.long_array(), reader.float(), reader.float()), (Some(300), Some(1.5), Some(-3.0)));
        assert_eq!((reader.nil(), reader.nil(), reader.bool()), (true, false, Some(true)));
        assert_eq!((reader.text(), reader.bytes()), (Some("\u{e4}b"), Some(&[7; 300][..])));
        assert_eq!((reader.text(), reader.bytes()), (None, None));
        assert_eq!(Reader(b"\xa2\xff\xff").text(), None);
    }
}
