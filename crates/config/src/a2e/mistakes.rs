//! Checks `[a2e]` for mistakes that do not depend on this machine.

use std::collections::HashSet;
use std::path::Path;

use gladhand_core::Secret;
use url::Url;

use super::{A2eConfig, CapabilityName};

/// The names of built-in environments. A program of the same name would never be used.
pub const OWN_ENVIRONMENTS: [&str; 4] = ["gridworld", "textfiles", "counter", "counter_env"];

/// A key, as in `a2e.toolkits#2.name`, and the message about it.
type Mistake = (String, String);

impl A2eConfig {
    /// Returns the values that have the right type and are still invalid.
    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        self.wrong_capabilities(&mut mistakes);
        self.wrong_agents(&mut mistakes);
        self.wrong_places(&mut mistakes);
        self.wrong_programs(&mut mistakes);
        self.wrong_toolkits(&mut mistakes);
        mistakes
    }

    /// Reports capabilities that are named twice, and capabilities that lack the configuration they need.
    fn wrong_capabilities(&self, mistakes: &mut Vec<Mistake>) {
        let named = self.capabilities.as_deref().unwrap_or_default();
        let mut earlier = HashSet::new();
        for (number, name) in numbered(named) {
            let key = format!("a2e.capabilities#{number}");
            let lacks = match name {
                CapabilityName::Proc if self.proc.allowed.is_empty() => Some("`allowed` of [a2e.proc]"),
                CapabilityName::Skill if self.skill.path.is_none() => Some("the `path` of [a2e.skill]"),
                CapabilityName::Toolkits if self.toolkits.is_empty() => Some("one of [[a2e.toolkits]]"),
                _ => None,
            };
            if !earlier.insert(name.word()) {
                mistakes.push((key, format!("`{}` is named twice", name.word())));
            } else if let Some(lacks) = lacks {
                mistakes.push((key, format!("`{}` has no effect without {lacks}", name.word())));
            }
        }
    }

    /// Reports empty tokens, and agents that would get more or less than the file says.
    fn wrong_agents(&self, mistakes: &mut Vec<Mistake>) {
        let is_reference = |token: &Secret| token.expose().starts_with("${");
        let no_reference = || {
            "references are not expanded in tokens: write the token itself, or set GLADHAND_A2E_TOKEN to add one"
                .to_owned()
        };
        for (number, _) in numbered(&self.tokens).filter(|(_, token)| token.expose().is_empty()) {
            mistakes.push((format!("a2e.tokens#{number}"), "a token must not be empty".to_owned()));
        }
        for (number, _) in numbered(&self.tokens).filter(|(_, token)| is_reference(token)) {
            mistakes.push((format!("a2e.tokens#{number}"), no_reference()));
        }
        let open: HashSet<_> = self.tokens.iter().map(Secret::expose).collect();
        let mut earlier = HashSet::new();
        for (number, agent) in numbered(&self.agents) {
            let mut mistake =
                |key: &str, problem: String| mistakes.push((format!("a2e.agents#{number}{key}"), problem));
            let token = &agent.token.0;
            let is_repeated = !earlier.insert((agent.id.as_str(), token.expose()));
            if agent.id.is_empty() {
                mistake(".id", "an id must not be empty".to_owned());
            }
            if token.expose().is_empty() {
                mistake(".token", "a token must not be empty".to_owned());
            } else if is_reference(token) {
                mistake(".token", no_reference());
            } else if open.contains(token.expose()) {
                mistake(
                    ".token",
                    "this token is also in a2e.tokens, which grants every capability to every agent".to_owned(),
                );
            } else if is_repeated {
                mistake(".token", format!("the agent `{}` has this token already", agent.id));
            }
            if agent.principal.as_ref().is_some_and(String::is_empty) {
                mistake(".principal", "a principal must not be empty".to_owned());
            }
            if agent.capabilities.as_ref().is_some_and(Vec::is_empty) {
                mistake(
                    ".capabilities",
                    "the list is empty: name a capability, or omit the key to grant all".to_owned(),
                );
            }
        }
    }

    /// Reports invalid folders and addresses.
    fn wrong_places(&self, mistakes: &mut Vec<Mistake>) {
        let is_empty = |path: &Path| path.as_os_str().is_empty();
        let mut nothing = |key: String| mistakes.push((key, "a folder must not be empty".to_owned()));
        for (number, _) in numbered(&self.roots).filter(|(_, root)| is_empty(root)) {
            nothing(format!("a2e.roots#{number}"));
        }
        if self.skill.path.as_deref().is_some_and(is_empty) {
            nothing("a2e.skill.path".to_owned());
        }
        let is_address =
            |url: &str| Url::parse(url).is_ok_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
        for (number, _) in numbered(&self.mcp.urls).filter(|(_, url)| !is_address(url)) {
            let problem = "expected an address that begins with http:// or https://";
            mistakes.push((format!("a2e.mcp.urls#{number}"), problem.to_owned()));
        }
    }

    /// Commands without a program, and environments whose name is taken.
    fn wrong_programs(&self, mistakes: &mut Vec<Mistake>) {
        for (key, words) in [("a2e.proc.allowed", &self.proc.allowed), ("a2e.mcp.commands", &self.mcp.commands)] {
            for (number, word) in numbered(words) {
                let problem = match word.as_str() {
                    "" => "a program must not be empty",
                    // A path with a folder may contain spaces.
                    word if word.contains(char::is_whitespace) && !word.contains(std::path::is_separator) => {
                        "expected only the program, without arguments"
                    }
                    _ => continue,
                };
                mistakes.push((format!("{key}#{number}"), problem.to_owned()));
            }
        }
        let is_name = |name: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            !name.is_empty() && name.bytes().all(is_part)
        };
        for (number, _) in numbered(&self.proc.variables).filter(|(_, name)| !is_name(name)) {
            let problem = "expected the name of a variable: letters, digits and `_`";
            mistakes.push((format!("a2e.proc.variables#{number}"), problem.to_owned()));
        }
        for (name, command) in &self.env.commands {
            let mut mistake = |problem: String| mistakes.push((format!("a2e.env.commands.{name}"), problem));
            if name.is_empty() {
                mistake("an environment needs a name".to_owned());
            }
            if OWN_ENVIRONMENTS.contains(&name.as_str()) {
                mistake(format!("`{name}` is an environment of our own: choose another name"));
            }
            if command.first().is_none_or(String::is_empty) {
                mistake("the command names no program".to_owned());
            }
        }
    }

    /// Schemas of toolkits that cannot be used, to be reported where the schema is.
    pub(crate) fn wrong_schemas(&self) -> Vec<Mistake> {
        let problems = numbered(&self.toolkits).filter_map(|(number, toolkit)| {
            let problem = toolkit.schema.as_ref()?.problem()?;
            Some((format!("a2e.toolkits#{number}.schema"), problem))
        });
        problems.collect()
    }

    /// Toolkits without a name or tools, or that would hide each other.
    fn wrong_toolkits(&self, mistakes: &mut Vec<Mistake>) {
        let mut taken = HashSet::new();
        for (number, toolkit) in numbered(&self.toolkits) {
            let mut mistake =
                |key: String, problem: String| mistakes.push((format!("a2e.toolkits#{number}.{key}"), problem));
            if toolkit.name.is_empty() {
                mistake("name".to_owned(), "a toolkit needs a name".to_owned());
            }
            for (key, name) in [("name", &toolkit.name), ("alias", &toolkit.alias)] {
                if !name.is_empty() && taken.contains(name) {
                    mistake(key.to_owned(), format!("an earlier toolkit is called `{name}` already"));
                }
            }
            taken.extend([&toolkit.name, &toolkit.alias]);
            if toolkit.tools.is_empty() {
                mistake("tools".to_owned(), "a toolkit needs one tool at least".to_owned());
            }
            let mut earlier = HashSet::new();
            for (place, tool) in numbered(&toolkit.tools) {
                if tool.is_empty() {
                    mistake(format!("tools#{place}"), "a name must not be empty".to_owned());
                } else if !earlier.insert(tool) {
                    mistake(format!("tools#{place}"), format!("`{tool}` is named twice"));
                }
            }
        }
    }
}

/// Numbers items from 1, as messages show them.
fn numbered<T>(items: &[T]) -> impl Iterator<Item = (usize, &T)> {
    items.iter().enumerate().map(|(at, item)| (at + 1, item))
}

#[cfg(test)]
mod tests {
    use crate::{Problem, Reading, parse};

    fn problems(text: &str) -> String {
        let problems = parse(text, Reading::AsWritten).unwrap_err();
        problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn mistakes_in_the_a2e_section_have_their_places_and_no_secrets() {
        let text = "[a2e]\nsessions = 0\nidle_minutes = 0\ncapabilities = ['memroy']\n\
                    [[a2e.agents]]\ntoken = 'hush'\n[[a2e.agents]]\nid = 'x'\ntoken = 5\n\
                    [a2e.proc]\nmax = 0\nalowed = []\n[a2e.learning]\nconfidence_threshold = 2.0\n\
                    [a2e.env]\ncommands = { chess = [] }\n\
                    [[a2e.toolkits]]\nname = 'k'\ntools = ['a']\nschema = { type = 7 }\n";
        let expected = "\
line 2, column 1: a2e.sessions: must be from 1 to 1000000
line 3, column 1: a2e.idle_minutes: must be from 1 to 10080
line 4, column 17: invalid value `memroy` for `a2e.capabilities#1`: expected `tools`, `toolkits`, `skill`, `env`, `proc`, `memory`, `learning`, `chains`, `mcp`, `multi_agent` or `planning`
line 5, column 1: a2e.agents#1: `id` is missing
line 9, column 9: a2e.agents#2.token: expected a string
line 11, column 1: a2e.proc.max: must be from 1 to 10000
line 12, column 1: a2e.proc.alowed: there is no key `alowed`: did you mean `allowed`?
line 14, column 1: a2e.learning.confidence_threshold: must be from 0 to 1
line 16, column 14: a2e.env.commands.chess: the command names no program";
        let found = problems(text);
        assert!(!found.contains("hush"), "{found}");
        let (found, schema) = found.rsplit_once('\n').unwrap();
        assert_eq!(found, expected);
        assert!(
            schema.starts_with("line 20, column 10: a2e.toolkits#1.schema: this schema cannot be used"),
            "{schema}"
        );
    }

    #[test]
    fn colliding_names_are_reported_with_their_places() {
        let text = "[a2e]\ntokens = ['open']\ncapabilities = [\n  'memory',\n  'memory',\n  'proc',\n]\n\
                    [[a2e.agents]]\nid = 'ann'\ntoken = 'open'\n[[a2e.agents]]\nid = 'bob'\ntoken = 'hush'\n\
                    [[a2e.agents]]\nid = 'bob'\ntoken = 'hush'\ncapabilities = []\n\
                    [a2e.env.commands]\ncounter = ['x']\n\
                    [[a2e.toolkits]]\nname = 'k'\nalias = 'l'\ntools = ['a']\n\
                    [[a2e.toolkits]]\nname = 'l'\nalias = 'k'\ntools = [\n'a',\n'a']\n";
        let expected = "\
line 5, column 3: a2e.capabilities#2: `memory` is named twice
line 6, column 3: a2e.capabilities#3: `proc` has no effect without `allowed` of [a2e.proc]
line 10, column 1: a2e.agents#1.token: this token is also in a2e.tokens, which grants every capability to every agent
line 16, column 1: a2e.agents#3.token: the agent `bob` has this token already
line 17, column 1: a2e.agents#3.capabilities: the list is empty: name a capability, or omit the key to grant all
line 19, column 1: a2e.env.commands.counter: `counter` is an environment of our own: choose another name
line 25, column 1: a2e.toolkits#2.name: an earlier toolkit is called `l` already
line 26, column 1: a2e.toolkits#2.alias: an earlier toolkit is called `k` already
line 29, column 1: a2e.toolkits#2.tools#2: `a` is named twice";
        assert_eq!(problems(text), expected);
    }

    #[test]
    fn empty_and_unusable_values_are_reported_with_their_places() {
        let text = "[a2e]\ntokens = ['${hush}']\nroots = ['/', '']\nmax_parallel = 4294967295\n\
                    [[a2e.agents]]\nid = ''\ntoken = ''\n[[a2e.agents]]\nid = 'x'\ntoken = '${secret:hush}'\n\
                    [a2e.proc]\nallowed = ['git', 'git status', '', '/opt/my tools/x']\nvariables = ['CI', 'A*']\n\
                    [a2e.skill]\npath = ''\n[a2e.env.commands]\n'' = ['']\n\
                    [a2e.mcp]\ncommands = ['']\nurls = [\n'https://a.example/',\n'file:///a']\n\
                    [[a2e.toolkits]]\nname = ''\ntools = []\n";
        let reference =
            "references are not expanded in tokens: write the token itself, or set GLADHAND_A2E_TOKEN to add one";
        let expected = format!(
            "\
line 2, column 11: a2e.tokens#1: {reference}
line 3, column 15: a2e.roots#2: a folder must not be empty
line 4, column 1: a2e.max_parallel: must be from 1 to 100000
line 6, column 1: a2e.agents#1.id: an id must not be empty
line 7, column 1: a2e.agents#1.token: a token must not be empty
line 10, column 1: a2e.agents#2.token: {reference}
line 12, column 19: a2e.proc.allowed#2: expected only the program, without arguments
line 12, column 33: a2e.proc.allowed#3: a program must not be empty
line 13, column 20: a2e.proc.variables#2: expected the name of a variable: letters, digits and `_`
line 15, column 1: a2e.skill.path: a folder must not be empty
line 17, column 1: a2e.env.commands.: an environment needs a name
line 17, column 1: a2e.env.commands.: the command names no program
line 19, column 13: a2e.mcp.commands#1: a program must not be empty
line 22, column 1: a2e.mcp.urls#2: expected an address that begins with http:// or https://
line 24, column 1: a2e.toolkits#1.name: a toolkit needs a name
line 25, column 1: a2e.toolkits#1.tools: a toolkit needs one tool at least"
        );
        let found = problems(text);
        assert_eq!(found, expected);
        assert!(!found.contains("hush"), "{found}");
    }
}
