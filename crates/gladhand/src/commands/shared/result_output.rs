//! Shows the result of a call to a user: text on stdout, everything else in files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gladhand_core::operations::{Content, Contents, FailureKind, PromptResult, ToolResult};
use gladhand_core::wire::{Members, RawValue, json};

use crate::commands::CommandError;
use crate::exit::Exit;
use crate::terminal::text::{Reader, plain};

/// How many files of one name are tried before giving up.
const MOST_FILES: usize = 10_000;

/// Where media go, and under which name.
#[derive(Debug)]
pub(in crate::commands) struct Album {
    folder: PathBuf,
    name: String,
    /// Who reads the text between them.
    reader: Reader,
}

impl Album {
    /// Media are saved into a folder, named after what returned them.
    pub(in crate::commands) fn new(folder: &Path, name: &str, reader: Reader) -> Self {
        let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        let name: String = name.chars().map(safe).take(64).collect();
        Self { folder: folder.to_owned(), name: name.trim_start_matches(['.', '-']).to_owned(), reader }
    }

    /// Saves data under a free name.
    fn save(&self, mime_type: &str, bytes: &[u8]) -> Result<PathBuf> {
        let extension = extension(mime_type);
        for number in 1..=MOST_FILES {
            let path = self.folder.join(format!("{}-{number}.{extension}", self.name));
            let created = std::fs::File::options().write(true).create_new(true).open(&path);
            match created {
                Ok(mut file) => {
                    file.write_all(bytes).with_context(|| format!("could not write {}", path.display()))?;
                    return Ok(path);
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("could not write {}", path.display())),
            }
        }
        anyhow::bail!("{} is full of files named {}-…", self.folder.display(), self.name)
    }

    fn text(&self, text: &str) -> String {
        self.reader.text(text).into_owned()
    }

    fn json(&self, json: &str) -> String {
        self.reader.json(json).into_owned()
    }

    fn saved(&self, what: &str, mime_type: &str, data: &str) -> Result<String> {
        // One that is broken does not spoil the rest.
        let Ok(bytes) = STANDARD.decode(data.trim()) else { return Ok(format!("[{what} not saved: it is no base64]")) };
        let path = self.save(mime_type, &bytes)?;
        Ok(format!("[{what} saved as {}]", path.display()))
    }
}

/// The ending of a file of a media type.
fn extension(mime_type: &str) -> &str {
    match mime_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/gzip" => "gz",
        "application/zip" => "zip",
        _ => "bin",
    }
}

/// A tool's result, one block after the other.
pub(in crate::commands) fn tool_result(result: &ToolResult, album: &Album) -> Result<String> {
    let mut blocks = Vec::new();
    for content in &result.content {
        blocks.push(match content {
            Content::Text(text) => album.text(&json::string(text).unwrap_or_else(|| text.get().into())),
            Content::Block(block) => content_block(block, album)?,
        });
    }
    if blocks.is_empty()
        && let Some(structured) = &result.structured
    {
        blocks.push(album.json(&pretty(structured)));
    }
    Ok(joined(blocks))
}

/// The contents of a resource, one part after the other.
pub(in crate::commands) fn contents(contents: &Contents, album: &Album) -> Result<String> {
    let parts = contents.parts.iter().map(|part| resource_part(part, album));
    Ok(joined(parts.collect::<Result<_>>()?))
}

/// A prompt, message by message.
pub(in crate::commands) fn prompt_result(prompt: &PromptResult, album: &Album) -> Result<String> {
    let mut messages = Vec::new();
    for message in &prompt.messages {
        let message = Members::of(message).unwrap_or_default();
        let role = message.str("role").unwrap_or_default();
        let content =
            message.raw("content").map_or_else(|| Ok(String::new()), |content| content_block(content, album))?;
        messages.push(format!("{}: {content}", plain(&role)));
    }
    Ok(joined(messages))
}

fn joined(blocks: Vec<String>) -> String {
    blocks.into_iter().map(|block| if block.ends_with('\n') { block } else { block + "\n" }).collect()
}

fn content_block(block: &RawValue, album: &Album) -> Result<String> {
    let members = Members::of(block).unwrap_or_default();
    let text = |name: &str| members.str(name).unwrap_or_default();
    Ok(match text("type").as_ref() {
        "text" => album.text(&text("text")),
        kind @ ("image" | "audio") => album.saved(kind, &text("mimeType"), &text("data"))?,
        "resource" => match members.raw("resource") {
            Some(resource) => resource_part(resource, album)?,
            None => album.json(&pretty(block)),
        },
        "resource_link" => {
            let name = plain(&text("name"));
            format!("[resource {name}: {}]", plain(&text("uri")))
        }
        _ => album.json(&pretty(block)),
    })
}

fn resource_part(part: &RawValue, album: &Album) -> Result<String> {
    let members = Members::of(part).unwrap_or_default();
    match (members.str("text"), members.str("blob")) {
        (Some(text), _) => Ok(album.text(&text)),
        (None, Some(blob)) => {
            let what = format!("resource {}", plain(&members.str("uri").unwrap_or_default()));
            album.saved(&what, &members.str("mimeType").unwrap_or_default(), &blob)
        }
        (None, None) => Ok(album.json(&pretty(part))),
    }
}

/// JSON with line breaks; as it stands if it is more than a tree can hold.
fn pretty(raw: &RawValue) -> String {
    let tree: Result<serde_json::Value, _> = serde_json::from_str(raw.get());
    tree.and_then(|tree| serde_json::to_string_pretty(&tree)).unwrap_or_else(|_| raw.get().to_owned())
}

/// A tool's result as MCP writes it, for `--json`. One that reports a failure has the member `error` besides.
pub(in crate::commands) fn tool_result_json(result: &ToolResult) -> Result<String> {
    let mut object = Vec::from(*b"{\"content\":[");
    for (at, content) in result.content.iter().enumerate() {
        if at > 0 {
            object.push(b',');
        }
        match content {
            Content::Text(text) => {
                object.extend_from_slice(br#"{"type":"text","text":"#);
                object.extend_from_slice(text.get().as_bytes());
                object.push(b'}');
            }
            Content::Block(block) => object.extend_from_slice(block.get().as_bytes()),
        }
    }
    object.push(b']');
    if let Some(structured) = &result.structured {
        object.extend_from_slice(br#","structuredContent":"#);
        object.extend_from_slice(structured.get().as_bytes());
    }
    object.extend_from_slice(format!(r#","isError":{}"#, result.failed).as_bytes());
    for (name, value) in &result.extra {
        object.push(b',');
        json::write(&mut object, name);
        object.push(b':');
        object.extend_from_slice(value.get().as_bytes());
    }
    if result.failed && !result.extra.iter().any(|(name, _)| name == "error") {
        object.extend_from_slice(br#","error":"#);
        object.extend_from_slice(reported_failure(result).to_json().to_string().as_bytes());
    }
    object.push(b'}');
    json::flatten(&mut object);
    Ok(String::from_utf8(object)?)
}

/// The failure that a tool reports, in the tool's words.
fn reported_failure(result: &ToolResult) -> CommandError {
    let texts = result.content.iter().filter_map(|content| match content {
        Content::Text(text) => json::string(text).map(|text| text.into_owned()),
        Content::Block(_) => None,
    });
    let texts: Vec<_> = texts.collect();
    let message = if texts.is_empty() { "the tool reports a failure".to_owned() } else { texts.join("\n") };
    CommandError::new(Exit::CallFailed, anyhow!(message)).code(FailureKind::ToolFailed.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(block: serde_json::Value) -> Content {
        Content::Block(json::to_raw(&block))
    }

    #[test]
    fn text_is_printed_and_media_are_saved_under_free_names() {
        let folder = tempfile::tempdir().unwrap();
        let album = Album::new(folder.path(), "../get image", Reader::Terminal);
        let image = || block(json!({"type": "image", "mimeType": "image/png", "data": "AAEC"}));
        let result =
            ToolResult { content: vec![Content::text("a\u{1b}b\n"), image(), image()], ..ToolResult::default() };
        let text = tool_result(&result, &album).unwrap();
        let path = |number: u8| folder.path().join(format!("get-image-{number}.png"));
        let expected =
            format!("a\\u{{1b}}b\n[image saved as {}]\n[image saved as {}]\n", path(1).display(), path(2).display());
        assert_eq!(text, expected);
        assert_eq!(std::fs::read(path(2)).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_pipe_gets_text_byte_for_byte_and_a_terminal_gets_it_escaped() {
        let hostile = "a\u{1b}]52;c;eA==\u{7}\r\nb\u{202e}\u{e0041}";
        let structured = Some(json::to_raw(&json!({"\u{200b}": "\u{9b}"})));
        let results = [ToolResult::text(hostile), ToolResult { structured, ..ToolResult::default() }];
        let shown = |reader| {
            let album = Album::new(Path::new("."), "x", reader);
            results.iter().map(|result| tool_result(result, &album).unwrap()).collect::<Vec<_>>()
        };
        let exact = [format!("{hostile}\n"), "{\n  \"\u{200b}\": \"\u{9b}\"\n}\n".to_owned()];
        assert_eq!(shown(Reader::Pipe), exact);
        let escaped = ["a\\u{1b}]52;c;eA==\\u{7}\r\nb\\u{202e}\\u{e0041}\n", "{\n  \"\\u200b\": \"\\u009b\"\n}\n"];
        assert_eq!(shown(Reader::Terminal), escaped);
    }

    #[test]
    fn invalid_base64_is_reported_and_no_file_written() {
        let folder = tempfile::tempdir().unwrap();
        let bad = block(json!({"type": "audio", "mimeType": "audio/wav", "data": "%"}));
        let result = ToolResult { content: vec![bad, Content::text("the rest")], ..ToolResult::default() };
        let text = tool_result(&result, &Album::new(folder.path(), "x", Reader::Pipe)).unwrap();
        assert_eq!(text, "[audio not saved: it is no base64]\nthe rest\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn structured_content_is_shown_if_a_result_has_no_text() {
        let structured = Some(json::to_raw(&json!({"a": 1})));
        let result = ToolResult { structured, ..ToolResult::default() };
        let text = tool_result(&result, &Album::new(Path::new("."), "x", Reader::Pipe)).unwrap();
        assert_eq!(text, "{\n  \"a\": 1\n}\n");
        let json = tool_result_json(&result).unwrap();
        assert_eq!(json, r#"{"content":[],"structuredContent":{"a":1},"isError":false}"#);
    }
}
