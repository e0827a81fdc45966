//! Resolves relative paths in a configuration file against the folder of that file, not the current folder.
//!
//! This is the only module that knows which settings are paths. Arguments of programs are not paths to us: the program
//! interprets them in its working folder.

use std::path::{Path, PathBuf};

use super::{A2eConfig, AgentConfig, Config, RepositoryConfig, UpstreamConfig};

impl Config {
    /// Resolves all relative paths against a folder.
    pub(super) fn resolve_paths(&mut self, folder: &Path) {
        let Self { a2e, authorization, audit, access_log, record, repository, agent, upstreams, .. } = self;
        let A2eConfig { roots, folder: base, skill, env, .. } = a2e;
        resolve(base.insert(PathBuf::from(".")), folder);
        let RepositoryConfig { roots: read, docs, recipes, .. } = repository;
        let AgentConfig { roots: worked_in, folder: kept, .. } = agent;
        let lists = roots.iter_mut().chain(read).chain(worked_in);
        let single = skill
            .path
            .iter_mut()
            .chain(docs)
            .chain(recipes)
            .chain(kept)
            .chain(&mut audit.file)
            .chain(&mut access_log.file)
            .chain(&mut record.folder);
        let keys = authorization.issuers.iter_mut().filter_map(|issuer| issuer.jwks_file.as_mut());
        for path in lists.chain(single).chain(keys) {
            resolve(path, folder);
        }
        for program in env.commands.values_mut().filter_map(|command| command.first_mut()) {
            anchored_program(program, folder);
        }
        for (_, upstream) in &mut upstreams.0 {
            let UpstreamConfig { command, cwd, ca, client_roots, .. } = upstream;
            // If the upstream has a `cwd`, the program is resolved there.
            if let (Some(program), None) = (command.first_mut(), &cwd) {
                anchored_program(program, folder);
            }
            cwd.iter_mut().chain(ca).chain(client_roots).for_each(|path| resolve(path, folder));
        }
    }
}

/// An empty path stays empty, so that it is reported as a mistake.
fn resolve(path: &mut PathBuf, folder: &Path) {
    if !path.as_os_str().is_empty() {
        let whole = folder.join(&*path);
        *path = std::path::absolute(&whole).unwrap_or(whole);
    }
}

/// A program without a folder is looked for on the `PATH`.
fn anchored_program(program: &mut String, folder: &Path) {
    if program.contains(std::path::is_separator) {
        let mut path = PathBuf::from(&*program);
        resolve(&mut path, folder);
        if let Ok(whole) = path.into_os_string().into_string() {
            *program = whole;
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::{File, Lookup, Reading};
    use super::*;

    const TEXT: &str = "\
[a2e]
roots = ['work', '/srv']
skill = { path = './skills' }
env = { commands = { chess = ['bin/chess', 'a/b'], plain = ['python3', 'chess.py'] } }
[[authorization.issuers]]
issuer = 'https://login.example'
jwks_file = '../keys.json'
[audit]
file = 'audit.jsonl'
[access_log]
file = 'access.jsonl'
[record]
folder = 'recordings'
[repository]
roots = ['.']
docs = 'docs'
recipes = 'recipes'
[agent]
folder = 'chats'
roots = ['work']
[upstreams.here]
command = ['./server', 'a/b']
[upstreams.there]
command = './server'
cwd = 'there'
[upstreams.plain]
command = 'npx'
";

    fn read(path: &str, is_written: bool) -> Config {
        let (variable, secret) = (|_: &str| None, |_: &str| Err(String::new()));
        let lookup = Lookup { variable: &variable, secret: &secret, authorities: &|_| Ok(()) };
        let reading = if is_written { Reading::AsWritten } else { Reading::Whole(&lookup) };
        File { path: path.into(), text: TEXT.to_owned() }.parse(reading).expect("the file is valid")
    }

    /// Everything in it that is a path.
    fn paths(config: &Config) -> Vec<String> {
        let a2e = &config.a2e;
        let mut paths: Vec<&Path> = a2e.roots.iter().map(PathBuf::as_path).collect();
        paths.extend(a2e.skill.path.as_deref());
        paths.extend(a2e.env.commands.values().flatten().map(Path::new));
        paths.extend(config.authorization.issuers[0].jwks_file.as_deref());
        let logs = [&config.audit.file, &config.access_log.file, &config.record.folder];
        paths.extend(logs.into_iter().filter_map(|path| path.as_deref()));
        paths.extend(config.repository.roots.iter().chain(&config.repository.docs).map(PathBuf::as_path));
        paths.extend(config.repository.recipes.iter().chain(&config.agent.folder).map(PathBuf::as_path));
        paths.extend(config.agent.roots.iter().map(PathBuf::as_path));
        for (_, upstream) in &config.upstreams.0 {
            paths.extend(upstream.command.iter().map(Path::new).chain(upstream.cwd.as_deref()));
        }
        paths.into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn all_relative_paths_begin_in_the_folder_of_the_file_and_nothing_else_does() {
        let expected = [
            "/etc/g/work",
            "/srv",
            "/etc/g/skills",
            "/etc/g/bin/chess",
            "a/b",
            "python3",
            "chess.py",
            "/etc/g/../keys.json",
            "/etc/g/audit.jsonl",
            "/etc/g/access.jsonl",
            "/etc/g/recordings",
            "/etc/g",
            "/etc/g/docs",
            "/etc/g/recipes",
            "/etc/g/chats",
            "/etc/g/work",
            "/etc/g/server",
            "a/b",
            "./server",
            "/etc/g/there",
            "npx",
        ];
        let config = read("/etc/g/gladhand.toml", false);
        assert_eq!(paths(&config), expected);
        assert_eq!(config.a2e.folder.as_deref(), Some(Path::new("/etc/g")));
    }

    #[test]
    fn paths_in_a_relative_file_are_resolved_from_its_folder() {
        let here = std::env::current_dir().unwrap();
        for (path, folder) in [("gladhand.toml", here.clone()), ("conf/g.toml", here.join("conf"))] {
            let a2e = read(path, false).a2e;
            assert_eq!((&a2e.roots[0], a2e.folder.as_ref()), (&folder.join("work"), Some(&folder)), "{path}");
        }
    }

    #[test]
    fn paths_read_as_written_stay_relative() {
        let written = paths(&read("/etc/g/gladhand.toml", true));
        assert_eq!((written[0].as_str(), written[2].as_str()), ("work", "./skills"));
    }
}
