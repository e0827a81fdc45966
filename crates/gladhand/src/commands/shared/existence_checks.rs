//! Whether what the configuration names is there: an upstream's program and its folder; the folders and programs of others.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gladhand_a2e_host::roots::inside as inside_roots;

use crate::config::{A2eConfig, AgentConfig, Config, Problem, RepositoryConfig, UpstreamConfig};
use crate::from_config;

/// Something that is missing: which key speaks of it, what it is, and what can be done.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct Missing {
    /// That of an upstream begins in its table, as in `cwd`; any other is whole, as in `a2e.roots#2`.
    pub(in crate::commands) key: String,
    pub(in crate::commands) message: String,
    pub(in crate::commands) advice: String,
}

impl Missing {
    /// Whether its key is wrong in itself, so that nothing more needs to be said of it.
    pub(in crate::commands) fn is_mistaken(&self, mistakes: &[Problem]) -> bool {
        let path: Vec<_> = self.key.split('.').collect();
        mistakes.iter().any(|mistake| mistake.is_of(&path))
    }
}

/// Folders and programs that an upstream's settings name and that are missing on this machine. Nothing is started or
/// connected to. Messages quote the settings as they are `written`: what a reference in them stands for may be a
/// secret.
pub(in crate::commands) fn missing(upstream: &UpstreamConfig, written: &UpstreamConfig) -> Vec<Missing> {
    let mut all = Vec::new();
    let folder = upstream.cwd.as_deref();
    if let Some(folder) = folder {
        let shown = written.cwd.as_deref().filter(|written| has_reference(&written.to_string_lossy()));
        all.extend(missing_folder("cwd", folder, shown.unwrap_or(folder)));
    }
    if let Some(program) = upstream.command.first() {
        let own = upstream.env.get("PATH").map(|path| path.0.expose().into());
        let path = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        let shown = written.command.first().filter(|written| has_reference(written));
        let shown = shown.unwrap_or(program);
        let missing = missing_program("command", program, shown, folder, &path);
        let is_one_text = upstream.command.len() == 1 && !has_folder(program);
        all.extend(missing.map(|one| match is_one_text.then(|| as_list(shown)).flatten() {
            Some(list) => Missing { advice: format!("install it, or write the command as a list: {list}"), ..one },
            None => one,
        }));
    }
    all
}

/// A command line as a list in TOML; `None` for a single word.
fn as_list(command: &str) -> Option<String> {
    let words: Vec<_> = command.split_whitespace().map(|word| format!("{word:?}")).collect();
    (words.len() > 1).then(|| format!("[{}]", words.join(", ")))
}

fn has_reference(text: &str) -> bool {
    text.contains("${")
}

/// Folders and programs that the rest of the configuration names and that are missing on this machine.
pub(in crate::commands) fn missing_elsewhere(config: &Config) -> Vec<Missing> {
    let RepositoryConfig { roots, docs, recipes, .. } = &config.repository;
    let AgentConfig { folder, roots: agent_roots, .. } = &config.agent;
    let A2eConfig { roots: a2e_roots, skill, .. } = &config.a2e;
    // The agent makes its own folder, unless something else has the name.
    let folder = folder.iter().filter(|folder| folder.exists());
    let listed = [("repository.roots", roots), ("agent.roots", agent_roots), ("a2e.roots", a2e_roots)];
    let listed = listed.into_iter().flat_map(|(key, folders)| numbered(key, folders));
    let single = [("repository.docs", docs), ("repository.recipes", recipes), ("a2e.skill.path", &skill.path)];
    let single = single.into_iter().flat_map(|(key, folder)| folder.iter().map(move |folder| (key.to_owned(), folder)));
    let folders = listed.chain(single).chain(folder.map(|folder| ("agent.folder".to_owned(), folder)));
    // An empty path is reported as a mistake elsewhere.
    let folders = folders.filter(|(_, folder)| !folder.as_os_str().is_empty());
    let folders = folders.filter_map(|(key, folder)| missing_folder(&key, folder, folder));
    folders.chain(outside_the_roots(&config.a2e)).chain(missing_programs(&config.a2e)).collect()
}

/// Files with keys of issuers that are missing or cannot be used. They are read, so the configuration must not be that of a
/// project.
pub(in crate::commands) fn missing_keys(config: &Config) -> impl Iterator<Item = Missing> {
    let unusable = from_config::unusable_key_files(&config.authorization).into_iter();
    let advice = "no token of this issuer is accepted until the file has its keys";
    unusable.map(move |(key, message)| Missing { key, message, advice: advice.to_owned() })
}

/// The folder of recordings, if it is missing or cannot be written.
pub(in crate::commands) fn unusable_recordings(config: &Config) -> Option<Missing> {
    let (key, folder) = ("record.folder", config.record.folder.as_deref()?);
    if folder.as_os_str().is_empty() {
        return None;
    }
    missing_folder(key, folder, folder).or_else(|| {
        let error = gladhand_store::files::not_writable(folder)?;
        let message = format!("no file can be made in {}: {error}", folder.display());
        Some(Missing { key: key.to_owned(), message, advice: "change its permissions, or name another".to_owned() })
    })
}

/// Reports an endpoint that is open although the configuration asks for tokens elsewhere.
pub(in crate::commands) fn left_open(config: &Config) -> Option<Missing> {
    let A2eConfig { tokens, agents, .. } = &config.a2e;
    let key = match (tokens.is_empty(), agents.is_empty()) {
        _ if config.authorization.is_required() => return None,
        (false, _) => "a2e.tokens",
        (true, false) => "a2e.agents",
        (true, true) => return None,
    };
    Some(Missing {
        key: key.to_owned(),
        message: "over HTTP these tokens guard A2E alone, and MCP at /mcp needs none".to_owned(),
        advice: "set [authorization] as well, or serve with --dialect a2e".to_owned(),
    })
}

/// Skills that are not offered because of where they are.
fn outside_the_roots(config: &A2eConfig) -> Option<Missing> {
    let folder = config.skill.path.as_deref().filter(|folder| folder.is_dir())?;
    if config.roots.is_empty() || inside_roots(folder, &config.roots).is_some() {
        return None;
    }
    Some(Missing {
        key: "a2e.skill.path".to_owned(),
        message: format!("{} is outside a2e.roots, so its skills are not offered", folder.display()),
        advice: "move it inside, or add it to a2e.roots".to_owned(),
    })
}

/// The programs that agents may have started and that are not there.
fn missing_programs(config: &A2eConfig) -> Vec<Missing> {
    let A2eConfig { folder, proc, env, mcp, .. } = config;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let allowed = numbered("a2e.proc.allowed", &proc.allowed).chain(numbered("a2e.mcp.commands", &mcp.commands));
    let played = env
        .commands
        .iter()
        .filter_map(|(name, command)| command.first().map(|program| (format!("a2e.env.commands.{name}"), program)));
    let programs = allowed.chain(played).filter(|(_, program)| !program.is_empty());
    programs.filter_map(|(key, program)| missing_program(&key, program, program, folder.as_deref(), &path)).collect()
}

/// Items with the keys that they are told under.
fn numbered<'i, T>(key: &str, items: &'i [T]) -> impl Iterator<Item = (String, &'i T)> {
    items.iter().enumerate().map(move |(at, item)| (format!("{key}#{}", at + 1), item))
}

/// Messages show the folder as `shown`.
fn missing_folder(key: &str, folder: &Path, shown: &Path) -> Option<Missing> {
    let message = match folder.is_dir() {
        true => return None,
        false if folder.exists() => format!("{} is no folder", shown.display()),
        false => format!("there is no folder {}", shown.display()),
    };
    Some(Missing { key: key.to_owned(), message, advice: "make it, or name another".to_owned() })
}

/// Messages show the program as `shown`.
fn missing_program(key: &str, program: &str, shown: &str, folder: Option<&Path>, path: &OsStr) -> Option<Missing> {
    if find(program, folder, &std::env::split_paths(path).collect::<Vec<_>>()).is_some() {
        return None;
    }
    let file = inside(folder, program);
    let message = match has_folder(program) {
        true if file.is_file() => format!("{shown} cannot be run"),
        true if file.exists() => format!("{shown} is no program"),
        true => format!("there is no program {shown}"),
        false => format!("`{shown}` is not on the PATH"),
    };
    let advice = match program {
        "npx" | "node" | "npm" => "install Node.js",
        "uvx" | "uv" => "install uv",
        "python" | "python3" | "pipx" => "install Python",
        "docker" => "install Docker",
        _ if has_folder(program) && file.is_file() => "make it executable, or name another",
        _ => "install it, or write where it is",
    };
    Some(Missing { key: key.to_owned(), message, advice: advice.to_owned() })
}

/// Where a program is: in its folder if it names one, else in the first of these that has it.
fn find(program: &str, folder: Option<&Path>, path: &[PathBuf]) -> Option<PathBuf> {
    if has_folder(program) {
        return Some(inside(folder, program)).filter(|file| is_program(file));
    }
    let endings: &[&str] = if cfg!(windows) { &["", ".exe", ".cmd", ".bat", ".com"] } else { &[""] };
    let mut places =
        path.iter().flat_map(|place| endings.iter().map(move |ending| place.join(format!("{program}{ending}"))));
    places.find(|file| is_program(file))
}

/// The file of a program that names a folder.
fn inside(folder: Option<&Path>, program: &str) -> PathBuf {
    folder.map_or_else(|| PathBuf::from(program), |folder| folder.join(program))
}

fn has_folder(program: &str) -> bool {
    program.contains(std::path::is_separator)
}

fn is_program(file: &Path) -> bool {
    let Ok(data) = std::fs::metadata(file) else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&data.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    data.is_file() && may_run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_folders_and_on_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let program = place.join("runs");
        std::fs::write(&program, "").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
            std::fs::write(place.join("text"), "").unwrap();
            assert_eq!(find("text", None, &[place.to_owned()]), None, "it cannot be run");
        }
        assert_eq!(find("runs", None, &["/nowhere".into(), place.to_owned()]), Some(program.clone()));
        assert_eq!(find("./runs", Some(place), &[]), Some(place.join("./runs")));
        assert_eq!(find("runs", Some(place), &[]), None, "a folder is not on the path");
        assert_eq!(find(program.to_str().unwrap(), Some(Path::new("/")), &[]), Some(program));
    }

    #[test]
    fn missing_files_of_an_upstream_are_found_by_key() {
        let upstream = UpstreamConfig {
            command: vec!["no-such-program-anywhere".to_owned()],
            cwd: Some("/no/such/folder".into()),
            ..UpstreamConfig::default()
        };
        let keys: Vec<_> = missing(&upstream, &upstream).into_iter().map(|one| one.key).collect();
        assert_eq!(keys, ["cwd", "command"]);
    }

    #[test]
    fn a_command_in_one_text_is_shown_as_a_list() {
        let advice = |command: &[&str]| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            let upstream = UpstreamConfig { command, ..UpstreamConfig::default() };
            missing(&upstream, &upstream).into_iter().map(|one| one.advice).collect::<String>()
        };
        assert_eq!(
            advice(&["no-such-program --stdio"]),
            r#"install it, or write the command as a list: ["no-such-program", "--stdio"]"#
        );
        assert_eq!(advice(&["no-such-program", "--stdio"]), "install it, or write where it is");
        assert_eq!(advice(&["no-such-program"]), "install it, or write where it is");
    }

    #[test]
    fn folders_of_the_repository_tools_and_of_the_agent_are_looked_for() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut config = Config::default();
        config.repository.roots = vec![here.path().to_owned(), "/no/such/root".into()];
        config.repository.docs = Some("/no/such/docs".into());
        config.agent.roots = vec!["/no/such/work".into()];
        config.agent.folder = Some("/no/such/chats".into());
        assert_eq!(
            told(&config),
            [
                "repository.roots#2: there is no folder /no/such/root",
                "agent.roots#1: there is no folder /no/such/work",
                "repository.docs: there is no folder /no/such/docs",
            ],
            "the agent makes its own folder"
        );
        config = Config::default();
        config.agent.folder = Some(file.clone());
        assert_eq!(told(&config), [format!("agent.folder: {} is no folder", file.display())]);
    }

    fn told(config: &Config) -> Vec<String> {
        missing_elsewhere(config).into_iter().map(|one| format!("{}: {}", one.key, one.message)).collect()
    }

    #[cfg(unix)]
    #[test]
    fn folders_and_programs_of_agents_are_looked_for() {
        let here = tempfile::tempdir().unwrap();
        let place = here.path().to_owned();
        let file = place.join("text");
        std::fs::write(&file, "").unwrap();
        let text = file.display().to_string();
        let mut config = Config::default();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        config.a2e.roots = vec![place.clone(), "/no/such/root".into(), file.clone()];
        config.a2e.skill.path = Some("/no/such/skills".into());
        config.a2e.proc.allowed = words(&["sh", "no-such-program"]);
        config.a2e.mcp.commands = words(&["no-such-server"]);
        config.a2e.env.commands = [("a", vec!["sh"]), ("b", vec![text.as_str()]), ("c", vec!["/"])]
            .map(|(name, command)| (name.to_owned(), words(&command)))
            .into();
        assert_eq!(
            told(&config),
            [
                "a2e.roots#2: there is no folder /no/such/root".to_owned(),
                format!("a2e.roots#3: {text} is no folder"),
                "a2e.skill.path: there is no folder /no/such/skills".to_owned(),
                "a2e.proc.allowed#2: `no-such-program` is not on the PATH".to_owned(),
                "a2e.mcp.commands#1: `no-such-server` is not on the PATH".to_owned(),
                format!("a2e.env.commands.b: {text} cannot be run"),
                "a2e.env.commands.c: / is no program".to_owned(),
            ]
        );
    }
}
