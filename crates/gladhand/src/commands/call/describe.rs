//! A tool's own help, made from its schema.

use std::fmt::Write as _;

use anstyle::Style;
use gladhand_core::operations::Tool;
use serde_json::Value;

use super::arguments::{Properties, Property};
use crate::terminal::layout::{write_labelled, write_line};
use crate::terminal::text::plain;

const STRONG: Style = Style::new().bold();

/// The text that `gladhand call TOOL --help` prints.
pub(super) fn help(tool: &Tool, target: &str, screen: Option<usize>) -> String {
    let properties = Properties::of(tool.input_schema.get());
    let mut text = String::new();
    let name = plain(&tool.name);
    let room = screen.unwrap_or(usize::MAX);
    let title = tool.title.as_deref().filter(|title| *title != tool.name).map(plain).unwrap_or_default();
    let gap = if title.is_empty() { "" } else { "  " };
    write_labelled(&mut text, &format!("{STRONG}{name}{STRONG:#}{gap}"), &title, room);
    for line in tool.description.trim().lines() {
        write_line(&mut text, 0, &plain(line), screen);
    }
    let words: String = properties.iter().map(word).collect();
    let usage = format!("gladhand call {name}{words} {}", plain(target));
    text.push('\n');
    write_labelled(&mut text, &format!("{STRONG}Usage:{STRONG:#} "), usage.trim_end(), room);
    if properties.iter().next().is_some() {
        let _ = writeln!(text, "\n{STRONG}Arguments:{STRONG:#}");
    }
    let width = properties.iter().map(|property| plain(&property.name).chars().count()).max().unwrap_or(0);
    for property in properties.iter() {
        let name = plain(&property.name);
        let blanks = " ".repeat(width - name.chars().count());
        write_labelled(&mut text, &format!("  {STRONG}{name}{STRONG:#}{blanks}  "), &plain(&kind(property)), room);
        for line in property.schema.get("description").and_then(Value::as_str).unwrap_or_default().trim().lines() {
            write_line(&mut text, width + 4, &plain(line), screen);
        }
    }
    text
}

/// How an argument is typed: ` text=STRING`, in brackets if it may be left out.
fn word(property: &Property) -> String {
    let choices = property.choices();
    let value = match property.types().as_slice() {
        _ if (1..=4).contains(&choices.len()) => {
            choices.iter().map(|choice| bare(choice)).collect::<Vec<_>>().join("|")
        }
        ["boolean"] | ["boolean", "null"] => "true|false".to_owned(),
        [one] | [one, "null"] => one.to_uppercase(),
        _ => "VALUE".to_owned(),
    };
    let name = plain(&property.name);
    let value = plain(&value);
    if property.required { format!(" {name}={value}") } else { format!(" [{name}={value}]") }
}

/// The type and the range of an argument: `integer, 1 to 10, default 3`.
fn kind(property: &Property) -> String {
    let schema = &property.schema;
    let mut parts = Vec::new();
    let types = property.types();
    match (types.as_slice(), property.items().and_then(|items| items.get("type")).and_then(Value::as_str)) {
        ([], _) => {}
        (["array"], Some(items)) => parts.push(format!("list of {items}")),
        (types, _) => parts.push(types.join(" or ")),
    }
    let choices = property.choices();
    if !choices.is_empty() {
        parts.push(format!("one of {}", choices.iter().map(|choice| bare(choice)).collect::<Vec<_>>().join(", ")));
    }
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => parts.push(format!("{least} to {most}")),
        (Some(least), None) => parts.push(format!("at least {least}")),
        (None, Some(most)) => parts.push(format!("at most {most}")),
        (None, None) => {}
    }
    if let Some(format) = schema.get("format").and_then(Value::as_str) {
        parts.push(format.to_owned());
    }
    // That one may leave out what may be left out goes without saying.
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        parts.push(format!("default {}", bare(default)));
    }
    if property.required {
        parts.push("required".to_owned());
    }
    parts.join(", ")
}

/// A value as it would be typed.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_core::wire::json;

    #[test]
    fn a_schema_becomes_help() {
        let schema = r#"{"type":"object","properties":{
            "loud":{"type":"boolean","default":false},
            "text":{"type":"string","description":"What to say."},
            "times":{"type":"integer","minimum":1,"maximum":10,"description":"How often."},
            "tone":{"type":"string","enum":["low","high"]},
            "tags":{"type":"array","items":{"type":"string"}}},"required":["text"]}"#;
        let tool = Tool::new("shout", "Says it louder.\nTwice.", json::raw(schema.to_owned()));
        let text = anstream::adapter::strip_str(&help(&tool, "-- my-server", None)).to_string();
        let expected = "\
shout
Says it louder.
Twice.

Usage: gladhand call shout text=STRING [loud=true|false] [times=INTEGER] [tone=low|high] [tags=ARRAY] -- my-server

Arguments:
  text   string, required
         What to say.
  loud   boolean, default false
  times  integer, 1 to 10
         How often.
  tone   string, one of low, high
  tags   list of string
";
        assert_eq!(text, expected);
    }

    #[test]
    fn help_is_not_wider_than_the_screen() {
        let schema = r#"{"type":"object","properties":{"kind":{"type":"string","enum":["a very long choice",
            "another very long choice","a third one that is long"]}},"required":["kind"]}"#;
        let mut tool = Tool::new("choose-between-many-things", "Chooses.", json::raw(schema.to_owned()));
        tool.title = Some("Choose between many things that are there".to_owned());
        let text = help(&tool, &format!("-- /{}", "folder/".repeat(12)), Some(60));
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn nothing_that_a_server_wrote_moves_the_cursor() {
        let tool = Tool::new("x\u{1b}[2J", "a\u{7}b", json::raw("{}".to_owned()));
        let text = anstream::adapter::strip_str(&help(&tool, "", None)).to_string();
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
    }
}
