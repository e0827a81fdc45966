//! `create_persistent_tool`: creates a tool that the model has written.

use std::path::Path;

use gladhand_core::wire::RawValue;
use serde::{Deserialize, Serialize};

use super::{Custom, is_name};
use crate::bench::Job;
use crate::outcome::{Outcome, Problem, done};

/// The first line of each file that the model wrote.
pub(super) const MARK: &str = "// Made by create_persistent_tool.";

impl Custom {
    /// Runs the tool.
    pub(crate) async fn create(&self, job: &Job<'_>) -> Outcome {
        let (Some(name), Some(description)) = (job.input.word("name"), job.input.word("description")) else {
            return Err(Problem::invalid(
                "create_persistent_tool requires non-empty `name` and `description` strings.",
            ));
        };
        let Some(code) = job.input.text("handler_code").filter(|_| job.input.word("handler_code").is_some()) else {
            return Err(Problem::invalid("create_persistent_tool requires a non-empty `handler_code` string."));
        };
        if !is_name(name) {
            return Err(Problem::invalid(format!("invalid tool name: {name}. allowed: [a-zA-Z0-9_.:-]+")));
        }
        if self.taken.contains(name) {
            return Err(Problem::invalid(format!("cannot overwrite built-in tool: {name}")));
        }
        let path = self.folder.join(file_name(name, job.input.word("filename"))?);
        let schema = schema(job.raw).map(|schema| pretty(schema.get(), "  "));
        let text = module(name, description, schema.as_deref(), code)?;

        self.ready().await;
        let _alone = self.making.lock().await;
        let overwrites = job.input.flag("overwrite", false);
        let before = fs_err::read(&path).ok();
        if before.is_some() && !overwrites {
            let message = format!("tool file already exists: {}. set overwrite=true to replace.", path.display());
            return Err(Problem::invalid(message));
        }
        let elsewhere = self.lock().iter().find(|tool| tool.description.name == name).map(|tool| tool.path.clone());
        if let Some(elsewhere) = &elsewhere
            && (!overwrites || *elsewhere != path)
        {
            let message = format!("tool already registered: {name} (from {}).", elsewhere.display());
            return Err(Problem::invalid(message));
        }
        fs_err::create_dir_all(&self.folder)?;
        fs_err::write(&path, text)?;
        let tool = match self.load_file(&path).await {
            Ok(tool) => tool,
            Err(why) => {
                put_back(&path, before.as_deref())?;
                return Err(Problem::invalid(format!("the tool could not be loaded and was not kept: {why}")));
            }
        };
        {
            let mut tools = self.lock();
            tools.retain(|other| other.path != path);
            tools.push(tool);
        }
        #[derive(Serialize)]
        struct Created<'a> {
            status: &'a str,
            message: String,
            tool_name: &'a str,
            path: String,
            overwritten: bool,
        }
        let overwritten = before.is_some();
        let word = if overwritten { "updated" } else { "created" };
        Ok(done(&Created {
            status: "ok",
            message: format!("persistent tool {word} and loaded: {name}"),
            tool_name: name,
            path: path.display().to_string(),
            overwritten,
        }))
    }
}

/// Restores the previous file after a failed load.
fn put_back(path: &Path, before: Option<&[u8]>) -> std::io::Result<()> {
    match before {
        Some(before) => fs_err::write(path, before),
        None => fs_err::remove_file(path),
    }
}

/// The file name of a tool. It must be a plain name, so that the file stays in its folder.
fn file_name(name: &str, wanted: Option<&str>) -> Result<String, Problem> {
    let Some(wanted) = wanted else {
        return Ok(format!("{}.mjs", name.replace(':', "_")));
    };
    let is_plain = !wanted.starts_with('.') && !wanted.contains(['/', '\\', '\0']);
    match wanted.rsplit_once('.') {
        _ if !is_plain => Err(Problem::invalid("`filename` must be a plain file name inside the tools directory.")),
        Some((_, "mjs" | "js")) => Ok(wanted.to_owned()),
        Some(_) => Err(Problem::invalid("`filename` must end with .mjs or .js.")),
        None => Ok(format!("{wanted}.mjs")),
    }
}

/// The schema as it was written, if it is an object.
fn schema(input: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Schema {
        args_schema: Option<Box<RawValue>>,
    }
    let schema = serde_json::from_str::<Schema>(input.get()).ok()?.args_schema?;
    schema.get().starts_with('{').then_some(schema)
}

/// The text of a module with a tool.
fn module(name: &str, description: &str, schema: Option<&str>, code: &str) -> Result<String, Problem> {
    let quoted = |text: &str| serde_json::to_string(text).map_err(|error| Problem::Broke(error.to_string()));
    let args = schema.map(|schema| format!("  args: {schema},\n")).unwrap_or_default();
    let body: Vec<_> = code.trim().lines().map(|line| format!("    {line}").trim_end().to_owned()).collect();
    Ok(format!(
        "{MARK}\nexport default {{\n  name: {},\n  description: {},\n{args}  async run(input, context) {{\n{}\n  }},\n}};\n",
        quoted(name)?,
        quoted(description)?,
        body.join("\n"),
    ))
}

/// Pretty-prints a JSON text without changing the order of members. All lines but the first begin with `indent`.
fn pretty(json: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    let (mut in_string, mut is_escaped) = (false, false);
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(indent);
        out.push_str(&"  ".repeat(depth));
    };
    for c in json.chars() {
        if in_string {
            out.push(c);
            in_string = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        match c {
            c if c.is_ascii_whitespace() => {}
            '{' | '[' => {
                depth += 1;
                out.push(c);
                newline(&mut out, depth);
            }
            '}' | ']' => {
                depth -= 1;
                // An empty object or list stays on one line.
                let before = out.trim_end().len();
                if out[..before].ends_with(['{', '[']) {
                    out.truncate(before);
                } else {
                    newline(&mut out, depth);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                newline(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => {
                in_string = c == '"';
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_pretty_printed_in_its_own_order() {
        let json = r#"{"type":"object" , "properties":{"a":{}, "b":["x: {","\"}"]},"n":[ ]}"#;
        let laid_out = "{\n  \"type\": \"object\",\n  \"properties\": {\n    \"a\": {},\n    \"b\": [\n      \"x: {\",\n      \
                        \"\\\"}\"\n    ]\n  },\n  \"n\": []\n}";
        assert_eq!(pretty(json, ""), laid_out);
    }

    #[test]
    fn file_names_stay_in_the_folder() {
        assert_eq!(file_name("ns:a.b", None), Ok("ns_a.b.mjs".to_owned()));
        assert_eq!(file_name("a", Some("b")), Ok("b.mjs".to_owned()));
        assert_eq!(file_name("a", Some("b.js")), Ok("b.js".to_owned()));
        for refused in ["../b.mjs", "a/b.mjs", ".b.mjs", "b.ts"] {
            assert!(file_name("a", Some(refused)).is_err(), "{refused}");
        }
    }
}
