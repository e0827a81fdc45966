//! A recording as one HTML page to attach to an issue.
//!
//! The page makes no request and has no script. Its Content-Security-Policy allows its own style sheet by hash and
//! nothing else, so text of a peer that looked like HTML could load nothing even if it were not escaped. It is.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gladhand_core::negotiation::Side;
use gladhand_core::time::Utc;
use gladhand_core::wire::invisible::{Layout, escape};
use gladhand_redaction::redact;
use ring::digest::{SHA256, digest};

use crate::commands::shared::message_filter::MessageFilter;
use crate::commands::shared::recordings::{Exchange, Line, Recording, Session, duration};

const STYLE: &str = include_str!("page.css");

/// How many levels of JSON are indented.
const DEEPEST: usize = 20;

/// The end of the year 9999, in milliseconds since 1970. Later times are shown as numbers.
const LAST_YEAR_MS: u64 = 253_402_300_799_999;

/// The whole page.
pub(super) fn page(recording: &Recording, filter: &MessageFilter) -> String {
    let header = &recording.header;
    let hash = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let command = text(&header.command.join(" "));
    let started = match header.started_ms {
        ms @ ..=LAST_YEAR_MS => Utc::since_1970(Duration::from_millis(ms)).to_string(),
        ms => format!("{ms} ms after 1970"),
    };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Recording: {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>Recording</h1>\n",
        title = if command.is_empty() { "gladhand" } else { &command },
    );
    if !command.is_empty() {
        push(&mut page, format_args!("<p><code>{command}</code></p>\n"));
    }
    let version = text(&header.version);
    push(&mut page, format_args!("<p class=\"faint\">Recorded by gladhand {version} from {started}</p>\n"));
    for remark in recording.remarks() {
        push(&mut page, format_args!("<p class=\"bad\">{}</p>\n", text(&remark)));
    }
    let sessions = recording.sessions.iter().map(|session| (session, filter.shown(session)));
    let is_shown = |session: &Session, shown: &[usize]| {
        !filter.is_partial() || !shown.is_empty() || !filter.shown_exchanges(session).is_empty()
    };
    let sessions: Vec<_> = sessions.filter(|(session, shown)| is_shown(session, shown)).collect();
    if sessions.len() > 1 {
        page.push_str("<nav aria-label=\"Sessions\">\n<ol>\n");
        for (number, (session, shown)) in sessions.iter().enumerate() {
            let (title, count) = (text(&session.title()), shown.len());
            let plural = if count == 1 { " message" } else { " messages" };
            push(&mut page, format_args!("<li><a href=\"#s{number}\">{title}</a> "));
            push(&mut page, format_args!("<span class=\"faint\">{count}{plural}</span></li>\n"));
        }
        page.push_str("</ol>\n</nav>\n");
    }
    for (number, (session, shown)) in sessions.iter().enumerate() {
        let (title, facts) = (text(&session.title()), text(&session.facts()));
        push(&mut page, format_args!("<section>\n<h2 id=\"s{number}\">{title}</h2>\n"));
        push(&mut page, format_args!("<p class=\"faint\">{facts}</p>\n<ol>\n"));
        let mut exchanges = filter.shown_exchanges(session).into_iter().peekable();
        for at in shown {
            while let Some(next) = exchanges.next_if(|exchange| exchange.after <= *at) {
                exchange(&mut page, session, next);
            }
            line(&mut page, session, &session.lines[*at]);
        }
        exchanges.for_each(|next| exchange(&mut page, session, next));
        page.push_str("</ol>\n</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn line(page: &mut String, session: &Session, line: &Line) {
    let (class, from) = match line.from {
        Side::Client => ("client", "client →"),
        Side::Server => ("server", "← server"),
    };
    let label = match &line.tool {
        Some(tool) => format!("{}: {tool}", line.label),
        None => line.label.clone(),
    };
    let bad = if line.is_error { " class=\"bad\"" } else { "" };
    let time = duration(line.ms - session.first_ms);
    push(page, format_args!("<li><details class=\"{class}\"><summary><span class=\"from\">{from}</span> "));
    push(page, format_args!("<span{bad}>{}</span> <span class=\"faint time\">{time}</span></summary>", text(&label)));
    push(page, format_args!("<pre>{}</pre></details></li>\n", text(&pretty(line))));
}

fn exchange(page: &mut String, session: &Session, exchange: &Exchange) {
    let bad = if exchange.is_error() { " class=\"bad\"" } else { "" };
    let (label, time) = (text(&exchange.label()), duration(exchange.ms - session.first_ms));
    push(page, format_args!("<li><details class=\"server\"><summary><span class=\"from\">← server</span> "));
    push(page, format_args!("<span{bad}>{label}</span> <span class=\"faint time\">{time}</span></summary>"));
    push(page, format_args!("<pre>{}</pre></details></li>\n", text(&exchange.headers())));
}

/// JSON with line breaks, members and numbers as they were written. Other text as it is.
fn pretty(line: &Line) -> String {
    if !line.is_json {
        return line.text.clone();
    }
    let (mut shown, mut depth, mut is_string, mut is_escaped) = (String::new(), 0_usize, false, false);
    let next = |shown: &mut String, depth: usize| {
        shown.push('\n');
        shown.push_str(&"  ".repeat(depth.min(DEEPEST)));
    };
    let mut rest = line.text.chars().filter(|c| !c.is_control()).peekable();
    while let Some(c) = rest.next() {
        if is_string {
            shown.push(c);
            (is_string, is_escaped) = (c != '"' || is_escaped, c == '\\' && !is_escaped);
            continue;
        }
        match c {
            ' ' => {}
            '{' | '[' => {
                shown.push(c);
                while rest.next_if_eq(&' ').is_some() {}
                match rest.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => shown.push(end),
                    None => {
                        depth += 1;
                        next(&mut shown, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                next(&mut shown, depth);
                shown.push(c);
            }
            ',' => {
                shown.push(c);
                next(&mut shown, depth);
            }
            ':' => shown.push_str(": "),
            c => {
                is_string = c == '"';
                shown.push(c);
            }
        }
    }
    shown
}

/// Text as HTML: no secrets, no invisible characters, no markup.
fn text(text: &str) -> String {
    let text = redact(text);
    let mut html = String::with_capacity(text.len());
    for c in escape(&text, Layout::Lines).chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = page.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use gladhand_recording::{EntryKind, Sender};

    use super::*;

    #[test]
    fn json_keeps_its_order_and_its_numbers() {
        let line = |text: &str| {
            let message = serde_json::from_str(text).unwrap();
            let kind = EntryKind::Message { from: Sender::Client, dialect: None, kind: None, message };
            let mut session = Session::default();
            session.add(1, 0.0, kind);
            pretty(&session.lines[0])
        };
        let text = r#"{"b" : 1.0,"a":[ ],"a":"x, {\"y","c":[1,{ }]}"#;
        let expected = "{\n  \"b\": 1.0,\n  \"a\": [],\n  \"a\": \"x, {\\\"y\",\n  \"c\": [\n    1,\n    {}\n  ]\n}";
        assert_eq!(line(text), expected);
        let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
        assert!(line(&deep).len() < 2 * 2000 * (2 + 2 * DEEPEST));
    }

    #[test]
    fn text_has_no_markup_and_nothing_invisible() {
        let hostile = "<script>\"'&</script>\u{1b}[2J\u{202e}\u{0}";
        let shown = text(hostile);
        assert!(shown.starts_with("&lt;script&gt;&quot;&#39;&amp;&lt;/script&gt;"), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{0}', '<', '"']), "{shown}");
    }
}
