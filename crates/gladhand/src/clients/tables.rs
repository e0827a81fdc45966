//! TOML of other programs, changed in one place without touching the rest.
//!
//! A server is a table under a header (`[section.name]`, with tables below it) or one value inside `[section]`. A changed
//! text is read again: an edit that would change anything else is refused.

use std::ops::Range;

use gladhand_core::Order as _;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::BadFile;
use crate::config::text;

/// The text with `section.name` set to these settings; `None` if it is so already.
pub(super) fn put(
    text: &str,
    section: &str,
    name: &str,
    settings: &serde_json::Value,
) -> Result<Option<String>, BadFile> {
    let written = block(section, name, settings);
    let new: Table = written.parse()?;
    let before: Table = text.parse()?;
    if member(&before, section, name).is_some() && member(&before, section, name) == member(&new, section, name) {
        return Ok(None);
    }
    let rest = take(text, section, name)?.map(|(rest, _)| rest);
    restore(rest.as_deref().unwrap_or(text), section, name, &written).map(Some)
}

/// The text with the table that [`take`] took away; the same text if there is something of that name.
pub(super) fn restore(text: &str, section: &str, name: &str, written: &str) -> Result<String, BadFile> {
    let mut expected: Table = text.parse()?;
    if member(&expected, section, name).is_some() {
        return Ok(text.to_owned());
    }
    let between = match text {
        "" => "",
        text if text.ends_with("\n\n") => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let new = format!("{text}{between}{written}");
    let value = written.parse::<Table>().ok().and_then(|table| member(&table, section, name).cloned());
    if let (Some(value), Some(section)) = (value, table_in(&mut expected, section)) {
        section.insert(name.to_owned(), value);
    }
    match new.parse::<Table>() {
        Ok(found) if found == expected => Ok(new),
        _ => Err(BadFile::Uneditable(name.to_owned())),
    }
}

/// The text without `section.name`, and what was written there as tables of their own; `None` if there is no such table.
pub(super) fn take(text: &str, section: &str, name: &str) -> Result<Option<(String, String)>, BadFile> {
    let mut expected: Table = text.parse()?;
    let Some(value) = table_in(&mut expected, section).and_then(|section| section.remove(name)) else {
        return Ok(None);
    };
    let (cuts, written) = match headed(text, section, name) {
        blocks if !blocks.is_empty() => {
            let written: String = blocks.iter().map(|block| &text[block.clone()]).collect();
            (blocks, written)
        }
        _ => {
            let settings = serde_json::to_value(&value)?;
            (inline(text, section, name).into_iter().collect(), block(section, name, &settings))
        }
    };
    let mut rest = text.to_owned();
    cuts.iter().rev().for_each(|cut| rest.replace_range(cut.clone(), ""));
    let found = rest.parse::<Table>().map(|mut found| {
        // A section of which nothing is left may be gone.
        let _ = table_in(&mut found, section);
        found
    });
    match found {
        Ok(found) if found == expected => Ok(Some((rest, written))),
        _ => Err(BadFile::Uneditable(name.to_owned())),
    }
}

fn member<'t>(root: &'t Table, section: &str, name: &str) -> Option<&'t Value> {
    root.get(section)?.get(name)
}

/// The section, which is made if it is missing; none if it is something else.
fn table_in<'t>(root: &'t mut Table, section: &str) -> Option<&'t mut Table> {
    root.entry(section).or_insert_with(|| Value::Table(Table::new())).as_table_mut()
}

/// Settings under a header of their own.
fn block(section: &str, name: &str, settings: &serde_json::Value) -> String {
    let mut lines: Vec<_> = settings.as_object().into_iter().flatten().collect();
    // The program or the address comes first.
    lines.order_by_key(|(key, _)| !["command", "url"].contains(&key.as_str()));
    let lines: String =
        lines.into_iter().map(|(key, value)| format!("{} = {}\n", text::key(key), text::value(value))).collect();
    format!("[{section}.{}]\n{lines}", text::key(name))
}

/// The lines of all tables at or below `section.name`, each from its header to its last setting.
fn headed(text: &str, section: &str, name: &str) -> Vec<Range<usize>> {
    let headers = headers(text);
    let ends = headers.iter().skip(1).map(|(begin, _)| *begin).chain([text.len()]);
    let blocks = headers.iter().zip(ends).filter(|((_, path), _)| path.starts_with(&[section.into(), name.into()]));
    blocks.map(|((begin, _), end)| *begin..begin + settled(&text[*begin..end])).collect()
}

/// The length of a block without the comments before the next header. A blank line behind it belongs to it.
fn settled(block: &str) -> usize {
    let (mut at, mut end, mut is_blank) = (0, 0, false);
    for line in block.split_inclusive('\n') {
        at += line.len();
        match line.trim() {
            "" if !is_blank => {
                // Comments behind a blank line are about what follows.
                is_blank = true;
                end = at;
            }
            line if line.is_empty() || line.starts_with('#') => {}
            _ => (end, is_blank) = (at, false),
        }
    }
    end
}

/// Where headers of tables begin, with their paths. A line inside a string or a list is none.
fn headers(text: &str) -> Vec<(usize, Vec<String>)> {
    let (mut found, mut at, mut inside) = (Vec::new(), 0, Inside::default());
    for line in text.split_inclusive('\n') {
        let is_header = inside.is_nothing() && line.trim_start().starts_with('[');
        match is_header {
            true => found.extend(path(line).map(|path| (at, path))),
            false => inside.pass(line),
        }
        at += line.len();
    }
    found
}

/// The path in a header.
fn path(line: &str) -> Option<Vec<String>> {
    let (mut path, mut value) = (Vec::new(), Value::Table(line.parse().ok()?));
    loop {
        value = match value {
            Value::Table(table) => match table.into_iter().next() {
                Some((key, inner)) => {
                    path.push(key);
                    inner
                }
                None => return Some(path),
            },
            // `[[name]]`
            Value::Array(items) => items.into_iter().next()?,
            _ => return None,
        };
    }
}

/// Brackets and quotes that are still open at the end of a line.
#[derive(Debug, Default)]
struct Inside {
    brackets: usize,
    quotes: Option<&'static str>,
}

impl Inside {
    fn is_nothing(&self) -> bool {
        self.brackets == 0 && self.quotes.is_none()
    }

    fn pass(&mut self, line: &str) {
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let mut length = first.len_utf8();
            match self.quotes {
                Some(quotes) if rest.starts_with(quotes) => {
                    self.quotes = None;
                    length = quotes.len();
                }
                // An escaped quote does not end the string.
                Some(quotes) if quotes.starts_with('"') && first == '\\' => {
                    length += rest[length..].chars().next().map_or(0, char::len_utf8);
                }
                Some(_) => {}
                None => match first {
                    '#' => break,
                    '[' | '{' => self.brackets += 1,
                    ']' | '}' => self.brackets = self.brackets.saturating_sub(1),
                    _ => {
                        self.quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| rest.starts_with(quotes));
                        length = self.quotes.map_or(length, str::len);
                    }
                },
            }
            rest = &rest[length..];
        }
        // Other strings end with their line.
        self.quotes = self.quotes.filter(|quotes| quotes.len() == 3);
    }
}

/// The lines of `name = { … }` inside `[section]`.
fn inline(text: &str, section: &str, name: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let DeValue::Table(servers) = root.get_ref().get(section)?.get_ref() else { return None };
    let (key, value) = servers.iter().find(|(key, _)| key.get_ref().as_ref() == name)?;
    let begin = text[..key.span().start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[value.span().end..].find('\n').map_or(text.len(), |at| value.span().end + at + 1);
    Some(begin..end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "\
# mine
model = \"x\" # kept
note = \"\"\"
[mcp_servers.a]
\"\"\"

[mcp_servers.a]
command = \"a\"
args = [
  \"1\", # one
]

# about the environment
[mcp_servers.a.env]
TOKEN = \"t\"

# about b
[mcp_servers.b]
command = \"b\"

[profiles.y]
list = [
  [1],
]
";

    #[test]
    fn a_server_is_taken_with_its_tables_and_put_back() {
        let (rest, written) = take(FILE, "mcp_servers", "a").unwrap().unwrap();
        assert!(!rest.contains("TOKEN") && rest.contains("[mcp_servers.a]\n\"\"\"\n"), "{rest}");
        assert!(rest.contains("# about b\n[mcp_servers.b]\ncommand = \"b\"\n\n[profiles.y]"), "{rest}");
        assert!(written.contains("\"1\", # one") && written.contains("TOKEN"), "{written}");
        let again = restore(&rest, "mcp_servers", "a", &written).unwrap();
        assert_eq!(again.parse::<Table>().unwrap(), FILE.parse::<Table>().unwrap());
        assert_eq!(restore(&again, "mcp_servers", "a", "").unwrap(), again, "what is there stays");
        assert!(take(FILE, "mcp_servers", "c").unwrap().is_none());
        assert!(take("", "mcp_servers", "c").unwrap().is_none());
    }

    #[test]
    fn a_server_that_is_one_value_becomes_a_table() {
        let text = "[mcp_servers]\na = { command = \"a\" } # old\nb = { command = \"b\", env = { X = \"1\" } }\n[z]\n";
        let (rest, written) = take(text, "mcp_servers", "b").unwrap().unwrap();
        assert_eq!(rest, "[mcp_servers]\na = { command = \"a\" } # old\n[z]\n");
        assert_eq!(written, "[mcp_servers.b]\ncommand = \"b\"\nenv = { X = \"1\" }\n");
        let one = "mcp_servers = { a = { command = \"a\" }, c = {} }\n";
        assert!(matches!(take(one, "mcp_servers", "a"), Err(BadFile::Uneditable(_))));
        assert!(matches!(put(one, "mcp_servers", "b", &json!({ "command": "b" })), Err(BadFile::Uneditable(_))));
    }

    #[test]
    fn a_server_is_put_once_and_replaced_where_it_differs() {
        let entry = json!({ "command": "g", "args": ["serve"] });
        let once = put("a = 1", "mcp_servers", "g", &entry).unwrap().unwrap();
        assert_eq!(once, "a = 1\n\n[mcp_servers.g]\ncommand = \"g\"\nargs = [\"serve\"]\n");
        assert_eq!(put(&once, "mcp_servers", "g", &entry).unwrap(), None);
        let other = put(&once, "mcp_servers", "g", &json!({ "command": "h" })).unwrap().unwrap();
        assert_eq!(other, "a = 1\n\n[mcp_servers.g]\ncommand = \"h\"\n");
        assert!(matches!(put("a = ", "mcp_servers", "g", &entry), Err(BadFile::NotToml(_))));
    }
}
