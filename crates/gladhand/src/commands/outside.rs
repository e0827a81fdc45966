//! Whether what the configuration names is there: an upstream's program, its folder, its address; the folders of others.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;

use crate::config::{AgentConfig, Config, RepositoryConfig, UpstreamConfig};

/// How long an address may take to accept a connection.
const CONNECTING: Duration = Duration::from_secs(3);

/// Something that is missing: which key speaks of it, what it is, and what can be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) key: &'static str,
    pub(super) message: String,
    pub(super) advice: String,
}

/// What an upstream's settings name and this machine does not have. Nothing is started or connected to.
pub(super) fn missing(upstream: &UpstreamConfig) -> Vec<Missing> {
    let mut all = Vec::new();
    let folder = upstream.cwd.as_deref();
    all.extend(folder.and_then(|folder| missing_folder("cwd", folder)));
    if let Some(program) = upstream.command.first() {
        let own = upstream.env.get("PATH").map(|path| path.0.expose().into());
        let path = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        if find(program, folder, &std::env::split_paths(&path).collect::<Vec<_>>()).is_none() {
            let message = match has_folder(program) {
                true => format!("there is no program {program}"),
                false => format!("`{program}` is not on the PATH"),
            };
            let advice = match program.as_str() {
                "npx" | "node" | "npm" => "install Node.js",
                "uvx" | "uv" => "install uv",
                "python" | "python3" | "pipx" => "install Python",
                "docker" => "install Docker",
                _ => "install it, or write where it is",
            };
            all.push(Missing { key: "command", message, advice: advice.to_owned() });
        }
    }
    all
}

/// The folders that the repository tools and the agent are to read and that are not there, each with its section.
pub(super) fn missing_folders(config: &Config) -> Vec<(&'static str, Missing)> {
    let RepositoryConfig { roots, docs, recipes, .. } = &config.repository;
    let AgentConfig { folder, roots: agent_roots, .. } = &config.agent;
    let look = |key, folders: &[PathBuf]| -> Vec<Missing> {
        folders.iter().filter_map(|folder| missing_folder(key, folder)).collect()
    };
    let of_repository = [look("roots", roots), look("docs", docs.as_slice()), look("recipes", recipes.as_slice())];
    // The agent makes its own folder, unless something else has the name.
    let folder = folder.iter().filter(|folder| folder.exists()).filter_map(|folder| missing_folder("folder", folder));
    let of_agent = look("roots", agent_roots).into_iter().chain(folder).map(|missing| ("agent", missing));
    of_repository.into_iter().flatten().map(|missing| ("repository", missing)).chain(of_agent).collect()
}

fn missing_folder(key: &'static str, folder: &Path) -> Option<Missing> {
    let message = match folder.is_dir() {
        true => return None,
        false if folder.exists() => format!("{} is no folder", folder.display()),
        false => format!("there is no folder {}", folder.display()),
    };
    Some(Missing { key, message, advice: "make it, or name another".to_owned() })
}

/// Where a program is: in its folder if it names one, else in the first of these that has it.
fn find(program: &str, folder: Option<&Path>, path: &[PathBuf]) -> Option<PathBuf> {
    let inside = |place: &Path| folder.map_or_else(|| place.to_owned(), |folder| folder.join(place));
    if has_folder(program) {
        return Some(inside(Path::new(program))).filter(|file| is_program(file));
    }
    let endings: &[&str] = if cfg!(windows) { &["", ".exe", ".cmd", ".bat", ".com"] } else { &[""] };
    let mut places =
        path.iter().flat_map(|place| endings.iter().map(move |ending| place.join(format!("{program}{ending}"))));
    places.find(|file| is_program(file))
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

/// Why nobody can be reached at an address, if so.
pub(super) fn unreachable(url: &Url) -> Option<Missing> {
    let host = url.host_str()?.trim_matches(['[', ']']);
    let place = format!("{host}:{}", url.port_or_known_default()?);
    let missing = |message, advice: &str| Some(Missing { key: "url", message, advice: advice.to_owned() });
    let Ok(addresses) = (host, url.port_or_known_default()?).to_socket_addrs() else {
        return missing(format!("there is no host {host}"), "is the address right, and is there a network?");
    };
    let mut failure = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECTING) {
            Ok(_) => return None,
            Err(error) => failure = Some(error),
        }
    }
    missing(format!("no connection to {place}: {}", failure?), "is the server running?")
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
    fn what_is_missing_is_told_with_something_to_do() {
        let upstream = UpstreamConfig {
            command: vec!["no-such-program-anywhere".to_owned()],
            cwd: Some("/no/such/folder".into()),
            ..UpstreamConfig::default()
        };
        let keys: Vec<_> = missing(&upstream).iter().map(|one| one.key).collect();
        assert_eq!(keys, ["cwd", "command"]);
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
        let missing = |config: &Config| -> Vec<String> {
            let told = missing_folders(config).into_iter();
            told.map(|(section, one)| format!("{section}.{}: {}", one.key, one.message)).collect()
        };
        assert_eq!(
            missing(&config),
            [
                "repository.roots: there is no folder /no/such/root",
                "repository.docs: there is no folder /no/such/docs",
                "agent.roots: there is no folder /no/such/work",
            ],
            "the agent makes its own folder"
        );
        config = Config::default();
        config.agent.folder = Some(file.clone());
        assert_eq!(missing(&config), [format!("agent.folder: {} is no folder", file.display())]);
    }

    #[test]
    fn an_address_is_reached_or_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url: Url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        assert_eq!(unreachable(&url), None);
        drop(listener);
        assert!(unreachable(&url).unwrap().message.contains("no connection"));
    }
}
