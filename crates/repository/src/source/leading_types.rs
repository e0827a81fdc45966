//! Blanks types before an expression in TypeScript, so that the grammar of `.tsx` reads `.ts`, too.
//!
//! In `.ts`, `<T>value` is a type assertion and `<T>(x: T) => x` is a generic function. In `.tsx`, the same text begins
//! an element. Everything else is alike, and the tables of a second grammar take 1.4 MB. Blanks keep the positions of all
//! other bytes. Text in strings and comments may be blanked too, which changes no syntax tree.

use std::borrow::Cow;

/// Maximum length of a type in bytes. A longer one stays.
const LONGEST: usize = 500;

/// Words after which an expression or a type begins.
const BEFORE_EXPRESSION: [&[u8]; 15] = [
    b"as", b"await", b"case", b"default", b"delete", b"do", b"else", b"extends", b"in", b"of", b"return", b"throw",
    b"typeof", b"void", b"yield",
];

/// The text with blanks instead of types before expressions.
pub(super) fn without_leading_types(text: &[u8]) -> Cow<'_, [u8]> {
    let mut blanked = Cow::Borrowed(text);
    let mut end = 0;
    for at in memchr::memchr_iter(b'<', text) {
        if at < end || !begins_expression(&text[..at]) {
            continue;
        }
        let Some(length) = type_length(&text[at..]) else { continue };
        end = at + length;
        for byte in blanked.to_mut()[at..end].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    }
    blanked
}

/// Whether an expression or a type begins after this text.
fn begins_expression(before: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    match before {
        [] => true,
        [.., b'=', b'>'] => true,
        [.., b'=' | b'(' | b',' | b':' | b'?' | b'&' | b'|' | b'!' | b'[' | b'{' | b'}' | b';'] => true,
        [.., b'+' | b'-' | b'*' | b'/' | b'%' | b'~' | b'^'] => true,
        _ => BEFORE_EXPRESSION.iter().any(|word| {
            let rest = before.strip_suffix(*word);
            rest.is_some_and(|rest| !rest.last().is_some_and(|last| is_of_name(*last) || *last == b'.'))
        }),
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// The length of the type or of the type parameters in angle brackets that this text begins with.
fn type_length(text: &[u8]) -> Option<usize> {
    if !text.get(1).is_some_and(|first| is_of_name(*first) || matches!(first, b'{' | b'[' | b'(' | b'"' | b'\'')) {
        return None;
    }
    let (mut angles, mut brackets) = (0_usize, 0_usize);
    let mut at = 0;
    while at < text.len().min(LONGEST) {
        let rest = &text[at..];
        match rest {
            [b'=', b'>', ..] => at += 1,
            [b'&', b'&', ..] | [b'|', b'|', ..] => return None,
            [b';', ..] if brackets == 0 => return None,
            [b'<', ..] => angles += 1,
            [b'>', ..] => angles = angles.checked_sub(1)?,
            [b'(' | b'[' | b'{', ..] => brackets += 1,
            [b')' | b']' | b'}', ..] => brackets = brackets.checked_sub(1)?,
            [quote @ (b'"' | b'\'' | b'`'), inside @ ..] => at += memchr::memchr(*quote, inside)? + 1,
            _ => {}
        }
        at += 1;
        if angles == 0 && brackets == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked(text: &str) -> String {
        String::from_utf8(without_leading_types(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn assertions_and_type_parameters_of_functions_become_blanks() {
        for (before, types, after) in [
            ("const a = ", "<any>", "window;"),
            ("f(", "<Map<string, A[]>>", "x)"),
            ("const id = ", "<T,>", "(x: T) => x;"),
            ("return ", "<{ a: 'ü;>'; b: () => T }>", "y"),
            ("g = async () => ", "<A>", "b"),
            ("c();\n", "<D>", "e"),
        ] {
            let expected = format!("{before}{}{after}", " ".repeat(types.len()));
            assert_eq!(blanked(&format!("{before}{types}{after}")), expected);
        }
        assert_eq!(blanked("h = <A\n  & B>c"), "h =   \n      c");
    }

    #[test]
    fn other_angle_brackets_stay() {
        for text in [
            "a < b && c > d",
            "for (let i = 0; i < n; i++) {}",
            "new Map<string, number>()",
            "class A<T> extends B<T> implements C<T> {}",
            "function f<T>(x: T): Promise<T> {}",
            "a << b >> c",
            "x.of<T>(y)",
            "if (a <b || c> d) {}",
            "y = <unfinished",
        ] {
            assert_eq!(blanked(text), text);
        }
    }

    #[test]
    fn a_long_row_of_brackets_takes_no_time() {
        let text = "=<a(".repeat(50_000);
        assert_eq!(blanked(&text), text);
    }
}
