//! The forms in which a value appears in text: verbatim, and encoded for URLs, JSON and base64.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use gladhand_core::wire::json;

/// Longer values are not searched for in base64: credentials of Basic authentication are short.
const MAX_BASE64_VALUE_BYTES: usize = 512;

/// Adds all forms of a value.
pub(crate) fn add(value: &str, forms: &mut Vec<String>) {
    forms.push(value.to_owned());
    let mut escaped = value.to_owned();
    // JSON inside a JSON string is escaped twice.
    for _ in 0..2 {
        forms.push(in_ascii(&escaped));
        escaped = inside(json::to_raw(&escaped).get());
        forms.push(escaped.replace('/', r"\/"));
        forms.push(escaped.clone());
    }
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    // The encodings of the URL standard for a query, and for user and password.
    let query = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>'".contains(&byte);
    let userinfo = |byte: u8| query(byte) && !b"/:;=@[\\]^|`{}?".contains(&byte);
    for encoded in [percent(value, unreserved), percent(value, query), percent(value, userinfo)] {
        forms.push(encoded.replace("%20", "+"));
        forms.push(lower_hex(&encoded));
        forms.push(encoded);
    }
    if value.len() <= MAX_BASE64_VALUE_BYTES {
        forms.extend((0..3).flat_map(|offset| in_base64(value.as_bytes(), offset)));
    }
}

/// The text between the quotes.
fn inside(quoted: &str) -> String {
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

fn in_ascii(value: &str) -> String {
    let mut ascii = Vec::new();
    json::write_ascii(&mut ascii, value);
    inside(&String::from_utf8_lossy(&ascii))
}

fn percent(value: &str, keeps: impl Fn(u8) -> bool) -> String {
    let encoded = |byte: u8| if keeps(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(encoded).collect()
}

/// The same with lower-case escapes.
fn lower_hex(encoded: &str) -> String {
    let mut letters_to_lower = 0;
    let lower = |letter: char| {
        if letter == '%' {
            letters_to_lower = 2;
        } else if letters_to_lower > 0 {
            letters_to_lower -= 1;
            return letter.to_ascii_lowercase();
        }
        letter
    };
    encoded.chars().map(lower).collect()
}

/// The base64 characters that depend on the value alone, if `offset` bytes (modulo 3) precede it.
fn in_base64(value: &[u8], offset: usize) -> [String; 2] {
    let padded = [&[0; 2][..offset], value].concat();
    let (first, end) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)]
        .map(|encoded| encoded.get(first..end).unwrap_or_default().to_owned())
}
