//! Commands that fetch a package and run it, without naming its version.
//!
//! `npx -y server` runs the newest package of that name: one that changed hands runs with the user's rights at the next
//! start. A version, or the digest of an image, makes a change visible.

use super::Finding;

/// The kinds of packages, by how they name their version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `name@1.2.3`
    Node,
    /// `name==1.2.3`, or `name@1.2.3`
    Python,
    /// `name:tag`, or `name@sha256:…`
    Image,
}

/// A warning if a command runs a package of no particular version. `words` are the command as it is written in the
/// configuration; a reference in it counts as a version.
pub(super) fn unpinned(about: &str, words: &[String]) -> Option<Finding> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (kind, runner, arguments) = runner(without_wrapper(&words))?;
    let package = package(kind, arguments)?;
    if is_elsewhere(package) || is_pinned(kind, package) {
        return None;
    }
    let message = format!("`{runner}` runs `{package}` without an exact version, so that it can change at any start");
    let name = name(kind, package);
    let pinned = match kind {
        Kind::Node => format!("{name}@1.2.3"),
        Kind::Python => format!("{name}==1.2.3"),
        Kind::Image => format!("{name}@sha256:…"),
    };
    Some(Finding::doubtful(about, message, format!("name the version that you looked at, as in `{pinned}`")))
}

/// The command behind `cmd /c` and `env NAME=value`.
fn without_wrapper<'w, 'a>(words: &'w [&'a str]) -> &'w [&'a str] {
    match words {
        [first, slash, rest @ ..] if program(first) == "cmd" && slash.eq_ignore_ascii_case("/c") => rest,
        [first, rest @ ..] if program(first) == "env" => {
            let assigned = rest.iter().take_while(|word| word.contains('=')).count();
            &rest[assigned..]
        }
        words => words,
    }
}

/// The name of a program without its folder and its ending.
fn program(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name.strip_suffix(".cmd").or_else(|| name.strip_suffix(".exe")).unwrap_or(name)
}

/// The kind of package, the usual name of the program that runs it, and the arguments of that program.
fn runner<'w, 'a>(words: &'w [&'a str]) -> Option<(Kind, &'static str, &'w [&'a str])> {
    let (first, rest) = words.split_first()?;
    let (second, behind) = rest.split_first().map_or(("", rest), |(second, behind)| (*second, behind));
    let found = match (program(first), second) {
        ("npx", _) => (Kind::Node, "npx", rest),
        ("pnpx", _) => (Kind::Node, "pnpx", rest),
        ("bunx", _) => (Kind::Node, "bunx", rest),
        ("uvx", _) => (Kind::Python, "uvx", rest),
        ("npm", "exec" | "x") => (Kind::Node, "npm exec", behind),
        ("bun", "x") => (Kind::Node, "bunx", behind),
        ("pnpm", "dlx") => (Kind::Node, "pnpm dlx", behind),
        ("yarn", "dlx") => (Kind::Node, "yarn dlx", behind),
        ("pipx", "run") => (Kind::Python, "pipx run", behind),
        ("uv", "tool") if behind.first() == Some(&"run") => (Kind::Python, "uvx", &behind[1..]),
        ("docker", "run") => (Kind::Image, "docker run", behind),
        ("podman", "run") => (Kind::Image, "podman run", behind),
        _ => return None,
    };
    Some(found)
}

/// The package: named by an option, or the first word that is no option.
fn package<'a>(kind: Kind, arguments: &[&'a str]) -> Option<&'a str> {
    let naming: &[&str] = match kind {
        Kind::Node => &["-p", "--package"],
        Kind::Python => &["--from", "--spec"],
        Kind::Image => &[],
    };
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        let (flag, value) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        match word {
            "--" => return words.next(),
            _ if naming.contains(&flag) => return value.or_else(|| words.next()),
            _ if !word.starts_with('-') => return Some(word),
            // The value of an option is no package.
            _ if value.is_none() && takes_value(kind, word) => drop(words.next()),
            _ => {}
        }
    }
    None
}

/// Whether an option is followed by its value.
fn takes_value(kind: Kind, flag: &str) -> bool {
    const OF_NODE: [&str; 4] = ["-c", "--call", "--registry", "-w"];
    const OF_PYTHON: [&str; 9] = [
        "-p",
        "--python",
        "-w",
        "--with",
        "--with-editable",
        "--index",
        "--index-url",
        "--default-index",
        "--directory",
    ];
    const NONE_OF_IMAGES: [&str; 10] = [
        "--rm",
        "--init",
        "--interactive",
        "--tty",
        "--detach",
        "--privileged",
        "--read-only",
        "--publish-all",
        "--quiet",
        "--no-healthcheck",
    ];
    match kind {
        Kind::Node => OF_NODE.contains(&flag),
        Kind::Python => OF_PYTHON.contains(&flag),
        Kind::Image if flag.starts_with("--") => !NONE_OF_IMAGES.contains(&flag),
        Kind::Image => !flag[1..].chars().all(|letter| "itdPq".contains(letter)),
    }
}

/// Whether it is a file or an address, and so no name in a registry.
fn is_elsewhere(package: &str) -> bool {
    package.starts_with(['.', '/', '~', '$']) || package.contains("://") || package.starts_with("file:")
}

/// The name without its version.
fn name(kind: Kind, package: &str) -> &str {
    split(kind, package).0
}

/// The name, and the version with the character before it.
fn split(kind: Kind, package: &str) -> (&str, &str) {
    let at = match kind {
        // The name of a scoped package begins with `@`.
        Kind::Node => package.get(1..).and_then(|rest| rest.find('@')).map(|at| at + 1),
        Kind::Python => package.find(['=', '@', '<', '>', '~', '!']),
        Kind::Image => package.find('@').or_else(|| {
            let folder = package.rfind('/').map_or(0, |slash| slash + 1);
            package[folder..].find(':').map(|colon| folder + colon)
        }),
    };
    at.map_or((package, ""), |at| package.split_at(at))
}

fn is_pinned(kind: Kind, package: &str) -> bool {
    let version = split(kind, package).1;
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(['*', 'x', ' ']);
    match kind {
        _ if version.contains("${") => true,
        Kind::Node => {
            version.strip_prefix('@').is_some_and(|version| is_number(version) && version.matches('.').count() >= 2)
        }
        Kind::Python => version.strip_prefix("==").or_else(|| version.strip_prefix('@')).is_some_and(is_number),
        Kind::Image => version.starts_with('@') || !matches!(version, "" | ":" | ":latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(command: &str) -> Option<Finding> {
        unpinned("upstream a", &command.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn an_unpinned_package_is_reported_with_a_pinned_command() {
        for (command, package, pinned) in [
            ("npx -y server", "server", "server@1.2.3"),
            ("npx server", "server", "server@1.2.3"),
            ("npx -y @scope/server stdio", "@scope/server", "@scope/server@1.2.3"),
            ("/usr/bin/npx --yes @scope/server@latest", "@scope/server@latest", "@scope/server@1.2.3"),
            ("npx -y server@^1.2.3", "server@^1.2.3", "server@1.2.3"),
            ("npx -y server@1", "server@1", "server@1.2.3"),
            ("npx --package=server run-it", "server", "server@1.2.3"),
            ("npx -y -p server run-it@1.2.3", "server", "server@1.2.3"),
            ("npm exec -- server", "server", "server@1.2.3"),
            ("cmd /c npx -y server", "server", "server@1.2.3"),
            ("env A=b npx.cmd -y server", "server", "server@1.2.3"),
            ("bunx server", "server", "server@1.2.3"),
            ("pnpm dlx server", "server", "server@1.2.3"),
            ("yarn dlx server", "server", "server@1.2.3"),
            ("uvx server --flag", "server", "server==1.2.3"),
            ("uvx --python 3.12 server>=1", "server>=1", "server==1.2.3"),
            ("uvx --from server run-it", "server", "server==1.2.3"),
            ("uv tool run server", "server", "server==1.2.3"),
            ("pipx run --spec server run-it", "server", "server==1.2.3"),
            ("docker run -i --rm -e TOKEN org/server", "org/server", "org/server@sha256:…"),
            ("docker run --rm host:5000/server:latest x", "host:5000/server:latest", "host:5000/server@sha256:…"),
            ("podman run -it server", "server", "server@sha256:…"),
        ] {
            let finding = finding(command).unwrap_or_else(|| panic!("{command}"));
            let Finding { state, message, advice, .. } = finding;
            assert_eq!(state, super::super::State::Doubtful);
            assert!(message.contains(&format!("runs `{package}` ")), "{command}: {message}");
            assert!(advice.unwrap().ends_with(&format!("`{pinned}`")), "{command}");
        }
    }

    #[test]
    fn pinned_packages_and_local_programs_are_not_reported() {
        for command in [
            "npx -y server@1.2.3",
            "npx -y @scope/server@1.2.3-beta.1",
            "npx -y server@${VERSION}",
            "npx -y ${PACKAGE}",
            "npx ./local",
            "npx",
            "npm start",
            "uvx server==1.2",
            "uvx server@1.2.3",
            "uvx --from server==1.2.3 run-it",
            "uvx --from git+https://example.org/x@abc run-it",
            "docker run -i --rm -v /a:/b org/server:1.2",
            "docker run org/server@sha256:abc",
            "docker ps",
            "server -y npx",
        ] {
            assert_eq!(finding(command), None, "{command}");
        }
    }
}
