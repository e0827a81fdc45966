//! Completes commands, names and arguments from the lists and schemas of the server.

use gladhand_core::operations::{Prompt, Resource, Template, Tool};

use super::COMMANDS;
use crate::commands::call::arguments::{Properties, Property};
use crate::terminal::text::plain;

/// The most candidates that are shown.
const MAX_CANDIDATES: usize = 200;

/// What can be completed.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Tools with their arguments.
    tools: Vec<Callable>,
    prompts: Vec<Callable>,
    resources: Vec<String>,
    templates: Vec<String>,
}

/// A tool or a prompt.
#[derive(Debug)]
struct Callable {
    name: String,
    /// Names of arguments, each with the values that it may have, if the schema names them.
    arguments: Vec<(String, Vec<String>)>,
}

impl Known {
    pub(super) fn set_tools(&mut self, tools: &[Tool]) {
        let callable = |tool: &Tool| {
            let properties = Properties::of(tool.input_schema.get());
            let argument = |property: &Property| (property.name.clone(), property.typed_values());
            Callable { name: tool.name.clone(), arguments: properties.iter().map(argument).collect() }
        };
        self.tools = tools.iter().map(callable).collect();
    }

    pub(super) fn set_prompts(&mut self, prompts: &[Prompt]) {
        let callable = |prompt: &Prompt| Callable {
            name: prompt.name.clone(),
            arguments: prompt.arguments.iter().map(|argument| (argument.name.clone(), Vec::new())).collect(),
        };
        self.prompts = prompts.iter().map(callable).collect();
    }

    pub(super) fn set_resources(&mut self, resources: &[Resource], templates: &[Template]) {
        self.resources = resources.iter().map(|resource| resource.uri.clone()).collect();
        self.templates = templates.iter().map(|template| template.uri_template.clone()).collect();
    }

    /// The words that may stand in the place of the last word of a line, with the place where it begins.
    pub(super) fn complete(&self, line: &str) -> (usize, Vec<String>) {
        let start =
            line.rfind(char::is_whitespace).map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
        let (before, last) = line.split_at(start);
        let before: Vec<_> = before.split_whitespace().collect();
        let mut candidates = self.candidates(&before, last);
        // A name that could not be typed as it is shown is of no use.
        candidates.retain(|candidate| candidate.starts_with(last) && plain(candidate) == *candidate);
        candidates.retain(|candidate| !candidate.contains(char::is_whitespace));
        candidates.truncate(MAX_CANDIDATES);
        (start, candidates)
    }

    fn candidates(&self, before: &[&str], last: &str) -> Vec<String> {
        let names = |of: &[Callable]| of.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let named = |of: &'_ [Callable], name: &str| of.iter().position(|one| one.name == name);
        match before {
            [] => COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            ["tools" | "call"] => names(&self.tools),
            ["call", name, given @ ..] => match named(&self.tools, name) {
                Some(at) => arguments(&self.tools[at], given, last),
                None => Vec::new(),
            },
            ["get"] => names(&self.prompts),
            ["get", name, given @ ..] => match named(&self.prompts, name) {
                Some(at) => arguments(&self.prompts[at], given, last),
                None => Vec::new(),
            },
            ["read"] => self.resources.clone(),
            ["complete"] => names(&self.prompts).into_iter().chain(self.templates.iter().cloned()).collect(),
            ["complete", name] => match (named(&self.prompts, name), *name) {
                (Some(at), _) => self.prompts[at].arguments.iter().map(|(name, _)| name.clone()).collect(),
                (None, template) => variables(template),
            },
            ["help"] => COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            _ => Vec::new(),
        }
    }
}

/// Arguments that are not given yet, or the values of the one that is being typed.
fn arguments(of: &Callable, given: &[&str], last: &str) -> Vec<String> {
    if let Some((name, _)) = last.split_once('=') {
        let values = of.arguments.iter().find(|(known, _)| known == name);
        return values.iter().flat_map(|(_, values)| values).map(|value| format!("{name}={value}")).collect();
    }
    let is_given = |name: &str| {
        given.iter().any(|word| word.split_once('=').is_some_and(|(key, _)| key.trim_end_matches(':') == name))
    };
    of.arguments.iter().filter(|(name, _)| !is_given(name)).map(|(name, _)| format!("{name}=")).collect()
}

/// The variables of a URI template.
fn variables(template: &str) -> Vec<String> {
    let expressions = template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let names = expressions
        .flat_map(|expression| expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']).split(','));
    names.map(|name| name.trim_end_matches('*').split(':').next().unwrap_or_default().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn known() -> Known {
        let tool = |name: &str, schema: Value| Tool::plain(name, "").taking(&schema);
        let schema = json!({"type": "object", "required": ["unit"], "properties": {
            "unit": {"enum": ["celsius", "kelvin"]}, "city": {"type": "string"}, "brief": {"type": "boolean"}}});
        let mut known = Known::default();
        known.set_tools(&[tool("weather", schema), tool("wait", json!({})), tool("bad\u{1b}", json!({}))]);
        known.templates = vec!["file:///{+path}{?line,column*}".to_owned()];
        known.resources = vec!["demo://a".to_owned(), "demo://b".to_owned()];
        known
    }

    #[test]
    fn commands_tools_arguments_and_values_are_completed() {
        let known = known();
        for (line, start, candidates) in [
            ("to", 0, vec!["tools"]),
            ("call w", 5, vec!["weather", "wait"]),
            ("call weather ", 13, vec!["unit=", "brief=", "city="]),
            ("call weather city=x u", 20, vec!["unit="]),
            ("call weather unit=", 13, vec!["unit=celsius", "unit=kelvin"]),
            ("call weather unit=k", 13, vec!["unit=kelvin"]),
            ("call weather brief=", 13, vec!["brief=true", "brief=false"]),
            ("call unknown ", 13, vec![]),
            ("read demo://", 5, vec!["demo://a", "demo://b"]),
            ("complete file:///{+path}{?line,column*} ", 40, vec!["path", "line", "column"]),
            ("nonsense ", 9, vec![]),
        ] {
            let expected: Vec<_> = candidates.into_iter().map(str::to_owned).collect();
            assert_eq!(known.complete(line), (start, expected), "{line}");
        }
    }

    #[test]
    fn names_that_cannot_be_typed_are_not_offered() {
        assert!(!known().complete("call ").1.iter().any(|name| name.contains('\u{1b}')));
        let (start, candidates) = known().complete("call\u{3000}日");
        assert_eq!((start, candidates.len()), (7, 0));
    }
}
