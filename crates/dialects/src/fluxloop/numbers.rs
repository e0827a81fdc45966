//! Detects numbers that do not fit into a double.
//!
//! The peers' decoder rejects a line with such a number (`fluxloop` §6.2). Integers are kept as text and may have any
//! length. A number with a fraction or an exponent must fit.

/// Whether valid JSON text contains a number that is out of range.
pub(super) fn holds_out_of_range(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let end = bytes[at..].iter().position(|byte| !is_part_of_number(*byte)).map_or(bytes.len(), |n| at + n);
                if is_out_of_range(&text[at..end]) {
                    return true;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    false
}

fn is_part_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

fn is_out_of_range(number: &str) -> bool {
    number.contains(['.', 'e', 'E']) && number.parse::<f64>().is_ok_and(f64::is_infinite)
}

/// The offset after the string that begins at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_doubles_can_be_out_of_range() {
        let integer = "9".repeat(400);
        for (text, expected) in [
            (r#"{"id":1e400}"#, true),
            (r#"[1,[-1E+400]]"#, true),
            ("-1.5e309", true),
            (&format!("{integer}.0"), true),
            (&integer, false),
            (r#"{"id":"1e400","\"1e400":[1e308,1e-400,0.5]}"#, false),
            (r#"["\\",1e400]"#, true),
        ] {
            assert_eq!(holds_out_of_range(text), expected, "{text}");
        }
    }
}
