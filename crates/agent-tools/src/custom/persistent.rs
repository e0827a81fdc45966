//! `create_persistent_tool`: creates a tool that the model has written.

use gladhand_core::wire::RawValue;
use serde::{Deserialize, Serialize};

use super::generated::Generated;
use super::{Custom, is_name};
use crate::outcome::{Outcome, Problem, done};
use crate::tool_set::Job;

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
        let generated = Generated {
            name: name.to_owned(),
            description: description.to_owned(),
            args: schema(job.raw),
            body: code.trim().to_owned(),
        };

        self.ready().await;
        let _alone = self.making.lock().await;
        let overwrites = job.input.flag("overwrite", false);
        let overwritten = path.symlink_metadata().is_ok();
        if overwritten && !overwrites {
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
        if let Err(why) = self.check(&generated.body).await {
            return Err(Problem::invalid(format!("the tool could not be loaded and was not kept: {why}")));
        }
        generated.write(&path)?;
        let tool = Self::tool(&path, self.next_version(), generated.described(), true).map_err(Problem::Broke)?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
