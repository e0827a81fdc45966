//! Recognises files that may hold secrets, by their location and name.
//!
//! The lists name places that common programs use. Callers pass real paths; `bounds` resolves links and finds hard
//! links.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// System paths: kernel state, devices and protected files.
const SYSTEM: [&str; 12] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh",
    "/run/secrets",
    "/run/user",
    "/var/run/secrets",
];

/// Folders that hold keys, logins or cookies, in any place. Each is one or more components.
pub(super) const FOLDERS: [&str; 65] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".oci",
    ".config/gladhand",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".config/sops",
    ".config/rclone",
    ".config/google-chrome",
    ".config/google-chrome-beta",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    "snap/chromium",
    "snap/firefox",
    ".var/app/com.google.Chrome",
    ".var/app/org.chromium.Chromium",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/doctl",
    ".config/heroku",
    ".config/stripe",
    ".config/ngrok",
    ".config/openstack",
    ".config/filezilla",
    ".config/msmtp",
    ".config/Bitwarden CLI",
    ".config/1Password",
    ".config/Signal",
    ".config/Slack",
    ".config/Code/User/globalStorage",
    ".config/Cursor/User/globalStorage",
    ".local/share/kwalletd",
    ".local/share/DBeaverData",
    ".dbeaver",
    ".subversion/auth",
    ".op",
    ".age",
    ".fly",
    ".config/fly",
    ".local/share/gladhand",
    ".lastpass",
    ".kaggle",
    ".snowflake",
    ".vnc",
    ".bitcoin",
    ".electrum",
    ".ethereum/keystore",
    ".config/solana",
    ".local/share/keyrings",
    "Library/Keychains",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/gladhand",
];

/// Files that hold keys or logins, in any place. Each is one or more components.
pub(super) const FILES: [&str; 76] = [
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".config/git/credentials",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".smbcredentials",
    ".dockercfg",
    ".docker/config.json",
    ".boto",
    ".s3cfg",
    ".vault-token",
    ".htpasswd",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    "credentials.json",
    "application_default_credentials.json",
    "fish_history",
    ".zhistory",
    "secrets.sealed",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".qwen/oauth_creds.json",
    "opencode/auth.json",
    // Server files of clients: the environment and the headers of a server may contain tokens.
    "claude_desktop_config.json",
    "cline_mcp_settings.json",
    "mcp_config.json",
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    "Code/User/mcp.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".github/mcp.json",
    ".junie/mcp/mcp.json",
    ".lmstudio/mcp.json",
    ".cache/lm-studio/mcp.json",
    ".copilot/mcp-config.json",
    "zed/settings.json",
    "Zed/settings.json",
    ".config/hub",
    ".config/containers/auth.json",
    ".local/share/containers/auth.json",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".nuget/NuGet/NuGet.Config",
    "pip.conf",
    ".databrickscfg",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    ".authinfo",
    ".msmtprc",
    ".fetchmailrc",
    ".mutt/muttrc",
    ".muttrc",
    ".lftp/bookmarks",
    "wallet.dat",
    "service-account.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
    "age/keys.txt",
];

/// Extensions of files that hold keys.
const ENDINGS: [&str; 11] =
    [".pem", ".key", ".p8", ".p12", ".pfx", ".pkcs12", ".jks", ".keystore", ".kdbx", ".ppk", ".ovpn"];

/// Extensions of Terraform states and variables, which contain the settings of resources, including passwords.
const TERRAFORM: [&str; 4] = [".tfstate", ".tfstate.backup", ".tfvars", ".tfvars.json"];

/// First parts of names of files that hold keys or logins, with or without another extension.
const BEGINNINGS: [&str; 4] = [".authinfo", ".netrc", ".vault_pass", "kubeconfig"];

/// Extensions of copies that editors and people make. A number may follow: `.bak.2`.
const BACKUPS: [&str; 6] = ["~", ".bak", ".old", ".orig", ".save", SWAP];

/// The extension of swap files of Vim. The name of a swap file begins with a dot.
const SWAP: &str = ".swp";

/// Names of SSH keys.
const SSH_KEYS: [&str; 4] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];

/// Extensions of environment files that are meant to be public.
const SHOWN: [&str; 5] = [".example", ".sample", ".template", ".dist", ".defaults"];

/// Whether a file or folder at a real path may hold secrets, by its location or name. A copy is like its original.
pub fn may_hold_secrets(real: &Path) -> bool {
    let is_of_system = SYSTEM.iter().any(|place| real.starts_with(place));
    let is_known = |path: &Path| is_below_any(path) || is_named(path);
    is_of_system || is_known(real) || originals(real).iter().any(|original| is_known(original))
}

/// The files of which a path may be a copy, by the extensions of backups in all its components.
fn originals(real: &Path) -> Vec<PathBuf> {
    if real.iter().all(|part| original(part) == part) {
        return Vec::new();
    }
    let path: PathBuf = real.iter().map(original).collect();
    let is_swap = real.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(SWAP.as_bytes()));
    let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix('.'));
    let edited = name.filter(|_| is_swap).map(|name| path.with_file_name(name));
    [path].into_iter().chain(edited).collect()
}

/// A name without the extensions of backups.
fn original(name: &OsStr) -> &OsStr {
    let Some(mut rest) = name.to_str() else { return name };
    loop {
        let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
        let unnumbered = rest.rsplit_once('.').filter(|(_, end)| is_number(end)).map_or(rest, |(rest, _)| rest);
        let without = |end: &&str| {
            let (rest, found) = unnumbered.split_at_checked(unnumbered.len().checked_sub(end.len())?)?;
            (!rest.is_empty() && found.eq_ignore_ascii_case(end)).then_some(rest)
        };
        match BACKUPS.iter().find_map(without) {
            Some(shorter) => rest = shorter,
            None => return OsStr::new(rest),
        }
    }
}

/// Folders and files of a workspace that decide which programs run, or what agents do: hooks, settings of editors,
/// shells and desktops, servers and instructions of agents. Each is one or more components. Case does not matter.
pub(super) const STEERING: &[&str] = &[
    // Version control.
    ".git",
    ".gitconfig",
    ".gitmodules",
    ".config/git",
    ".hg",
    ".hgrc",
    ".jj",
    ".husky",
    ".pre-commit-config.yaml",
    ".githooks",
    ".lefthook",
    // Editors.
    ".vscode",
    ".vscode-insiders",
    ".vscode-server",
    ".config/Code/User",
    ".config/Code - OSS/User",
    ".config/Cursor/User",
    ".config/VSCodium/User",
    "Application Support/Code/User",
    "Application Support/Cursor/User",
    ".vs",
    ".idea",
    ".fleet",
    ".zed",
    ".config/zed",
    ".exrc",
    ".vim",
    ".config/vim",
    ".nvimrc",
    ".vimrc",
    ".gvimrc",
    ".lvimrc",
    ".ideavimrc",
    ".nvim.lua",
    ".config/nvim",
    ".emacs",
    ".emacs.d",
    ".config/emacs",
    ".dir-locals.el",
    ".helix",
    ".config/helix",
    ".devcontainer",
    ".devcontainer.json",
    // Agents: their servers, hooks and instructions.
    ".agents",
    "AGENT.md",
    "AGENTS.md",
    "AGENTS.override.md",
    ".aiassistant",
    ".aider.conf.yml",
    ".amazonq",
    ".augment",
    ".augment-guidelines",
    ".claude",
    ".claude.json",
    ".claude-plugin",
    "claude_desktop_config.json",
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".cline",
    ".clinerules",
    "cline_mcp_settings.json",
    ".codeium",
    ".codex",
    ".continue",
    ".copilot",
    ".crush",
    ".crush.json",
    "crush.json",
    ".cursor",
    ".cursorrules",
    ".factory",
    ".gemini",
    "GEMINI.md",
    ".github/agents",
    ".github/chatmodes",
    ".github/hooks",
    ".github/skills",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".github/mcp.json",
    ".github/prompts",
    ".goose",
    ".goosehints",
    ".junie",
    ".kilocode",
    ".kiro",
    ".lmstudio",
    ".cache/lm-studio",
    ".mcp.json",
    ".openhands",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".qwen",
    "QWEN.md",
    ".roo",
    ".roorules",
    ".rules",
    ".trae",
    ".warp",
    "WARP.md",
    ".windsurf",
    ".windsurfrules",
    "gladhand.toml",
    // Tools that choose programs by folder, package managers, build tools and interpreters.
    ".envrc",
    ".config/direnv",
    ".mise",
    ".mise.toml",
    ".mise.local.toml",
    "mise.toml",
    "mise.local.toml",
    ".config/mise",
    ".asdfrc",
    ".tool-versions",
    ".cargo",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".yarn",
    "node_modules/.bin",
    ".venv/bin",
    "venv/bin",
    ".nvm",
    ".pyenv",
    ".rustup",
    "bunfig.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    ".mvn",
    ".gradle/init.d",
    ".bazelrc",
    ".bundle/config",
    ".ghci",
    ".irbrc",
    ".Rprofile",
    ".Renviron",
    ".iex.exs",
    ".ipython",
    "sitecustomize.py",
    "usercustomize.py",
    // Shells, logins and desktops, where the workspace is a home.
    ".profile",
    ".bashrc",
    ".bashrc.d",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".bash_completion",
    ".oh-my-zsh/custom",
    ".zshenv",
    ".zshrc",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".config/fish",
    ".config/nushell",
    ".config/powershell",
    ".config/zsh",
    ".inputrc",
    ".tmux.conf",
    ".config/tmux",
    ".screenrc",
    ".gdbinit",
    ".lldbinit",
    ".psqlrc",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".wezterm.lua",
    ".config/kitty",
    ".config/i3",
    ".config/sway",
    ".config/autostart",
    ".config/autostart-scripts",
    ".config/awesome",
    ".config/bspwm",
    ".config/hypr",
    ".config/openbox",
    ".config/plasma-workspace/env",
    ".xmonad",
    ".local/share/dbus-1/services",
    ".config/environment.d",
    ".config/systemd",
    ".local/share/systemd",
    ".local/share/applications",
    ".local/bin",
    "Library/LaunchAgents",
];

/// Whether a path below a workspace decides which programs run. The workspace may itself be a part of such a place:
/// `autostart` is one if the workspace is `.config`.
pub fn steers_programs(workspace: &Path, below: &Path) -> bool {
    let path = workspace.join(below);
    let (parts, above) = (path.iter().collect::<Vec<_>>(), workspace.iter().count());
    let is_there = |place: &&str| {
        let place: Vec<&OsStr> = Path::new(place).iter().collect();
        // At least the last component is below the workspace.
        let mut all = parts.windows(place.len()).skip((above + 1).saturating_sub(place.len()));
        all.any(|parts| parts.iter().zip(&place).all(|(part, wanted)| part.eq_ignore_ascii_case(wanted)))
    };
    let is_named = |part: &&OsStr| part.to_str().is_some_and(is_steering_name);
    STEERING.iter().any(is_there) || parts.iter().skip(above).any(is_named)
}

/// Whether a name has the form of a file that decides which programs run: a workspace of VS Code, settings of Lefthook or
/// pnpm, or a path file of Python, whose lines are run.
fn is_steering_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_lefthook = name.strip_prefix('.').unwrap_or(&name).starts_with("lefthook")
        && [".toml", ".json", ".yaml", ".yml"].iter().any(|end| name.ends_with(end));
    is_lefthook || name.starts_with(".pnpmfile.") || [".code-workspace", ".pth"].iter().any(|end| name.ends_with(end))
}

/// Whether a real path exposes the memory or the environment of a process, including this one.
pub(crate) fn shows_process(real: &Path) -> bool {
    real.starts_with("/proc")
        && real.file_name().is_some_and(|name| ["environ", "mem", "auxv"].iter().any(|it| name == *it))
}

fn is_below_any(real: &Path) -> bool {
    let components: Vec<Component<'_>> = real.components().collect();
    // The components of the folder must follow each other somewhere in the path.
    let contains = |folder: &&str| {
        let wanted = || Path::new(folder).components();
        components.windows(wanted().count()).any(|part| wanted().eq(part.iter().copied()))
    };
    FOLDERS.iter().any(contains) || FILES.iter().any(|file| real.ends_with(file))
}

fn is_named(real: &Path) -> bool {
    let Some(name) = real.file_name() else { return false };
    let name = name.to_string_lossy().to_ascii_lowercase();
    let is_environment = name.ends_with(".env")
        || name == ".envrc"
        || [".env.", ".env-", ".dev.vars"].iter().any(|beginning| name.starts_with(beginning));
    let is_ssh_key = SSH_KEYS.iter().any(|key| name.starts_with(key)) && !name.ends_with(".pub");
    is_environment && !is_shown(&name)
        || is_ssh_key
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        // Shells and database clients store the typed commands: `.bash_history`, `.psql_history`.
        || name.starts_with('.') && name.ends_with("_history")
        || is_git_config(real, &name)
        || TERRAFORM.iter().any(|end| name.ends_with(end))
        || ENDINGS.iter().any(|end| name.ends_with(end))
}

/// Whether an environment file is meant to be public: `.env.example`, `.env-example`, `example.env`.
fn is_shown(name: &str) -> bool {
    let name = name.replacen(".env-", ".env.", 1);
    let stem = name.strip_suffix(".env").unwrap_or(&name);
    SHOWN.iter().any(|end| stem.ends_with(end) || stem == &end[1..])
}

/// Whether a file is the configuration of a Git repository or submodule. The URLs of remotes may contain tokens.
fn is_git_config(real: &Path, name: &str) -> bool {
    let is_repository = |part: &OsStr| part.to_string_lossy().to_ascii_lowercase().ends_with(".git");
    (name == "config" || name == "config.worktree")
        && real.parent().is_some_and(|above| above.iter().any(is_repository))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_location_and_name() {
        for secret in [
            "/proc/1/environ",
            "/sys/kernel",
            "/dev/mem",
            "/etc/shadow",
            "/home/u/.ssh",
            "/home/u/.ssh/config",
            "/home/u/.config/gladhand/gladhand.toml",
            "/home/u/.docker/config.json",
            "/srv/app/.env",
            "/srv/app/.env.production",
            "/srv/app/prod.env",
            "/srv/app/DB.ENV",
            "/srv/app/sample.env.env",
            "/srv/app/tls/server.PEM",
            "/srv/app/id_ed25519",
            "/home/u/.cargo/credentials.toml",
            "/srv/infra/terraform.tfstate",
            "/srv/infra/terraform.tfstate.backup",
            "/srv/infra/terraform.tfstate.d/prod/terraform.tfstate",
            "/home/u/.bash_history",
            "/home/u/.zsh_history",
            "/home/u/.python_history",
            "/home/u/.psql_history",
            "/home/u/.node_repl_history",
            "/home/u/.local/share/fish/fish_history",
            "/srv/app/credentials.json",
            "/srv/app/application_default_credentials.json",
            "/srv/app/.git/config",
            "/srv/app/.git/modules/lib/config",
            "/srv/app/.git/worktrees/w/config.worktree",
            "/srv/mirror.git/config",
            "/home/u/.git-credentials",
            "/home/u/.netrc",
            "/srv/app/.npmrc",
            "/home/u/.pypirc",
            "/home/u/.kube/config",
            "/home/u/.claude/.credentials.json",
            "/home/u/.claude.json",
            "/home/u/.codex/auth.json",
            "/home/u/.gemini/oauth_creds.json",
            "/home/u/.config/github-copilot/hosts.json",
            "/home/u/.config/containers/auth.json",
            "/home/u/.m2/settings.xml",
            "/home/u/.authinfo",
            "/home/u/.authinfo.gpg",
            "/home/u/.msmtprc",
            "/home/u/.cache/huggingface/token",
            "/home/u/.config/microsoft-edge/Default/Cookies",
            "/home/u/snap/firefox/common/.mozilla/firefox/x/logins.json",
            "/home/u/.bitcoin/wallet.dat",
            "/home/u/.electrum/wallets/default_wallet",
            "/srv/app/.dev.vars",
            "/srv/app/.dev.vars.production",
            "/srv/infra/prod.tfvars",
            "/srv/infra/prod.auto.tfvars.json",
            "/srv/app/AuthKey_X.p8",
            "/srv/app/kubeconfig",
            "/srv/app/kubeconfig-prod.yaml",
            "/srv/app/.vault_pass",
            "/srv/app/.vault_pass.txt",
            "/home/u/work.ovpn",
            "/home/u/.smbcredentials",
            "/home/u/.mylogin.cnf",
            "/srv/app/.env-production",
            "/srv/app/.mcp.json",
            "/srv/app/.cursor/mcp.json",
            "/srv/app/.vscode/mcp.json",
            "/home/u/.gemini/settings.json",
            "/home/u/.qwen/oauth_creds.json",
            "/home/u/.local/share/opencode/auth.json",
            "/home/u/.config/Claude/claude_desktop_config.json",
            "/home/u/.config/Code/User/mcp.json",
            "/home/u/.config/zed/settings.json",
            "/home/u/.codeium/windsurf/mcp_config.json",
            "/home/u/.codex/config.toml",
            "/home/u/.cline/data/settings/cline_mcp_settings.json",
            "/home/u/.junie/mcp/mcp.json",
            "/home/u/.lmstudio/mcp.json",
            "/home/u/.cache/lm-studio/mcp.json",
            "/home/u/.copilot/mcp-config.json",
            "/srv/app/.github/mcp.json",
        ] {
            assert!(may_hold_secrets(Path::new(secret)), "{secret}");
        }
        for plain in [
            "/srv/app/src/main.rs",
            "/srv/app/.env.example",
            "/srv/app/example.env",
            "/srv/app/app.sample.env",
            "/srv/app/environment",
            "/srv/app/id_ed25519.pub",
            "/srv/app/id_map.rs",
            "/srv/process/environ",
            "/srv/app/.docker/Dockerfile",
            "/srv/app/keys.rs",
            "/srv/app/.git/HEAD",
            "/srv/app/config",
            "/srv/app/main.tf",
            "/srv/app/docs/credentials.md",
            "/srv/app/src/search_history",
            "/srv/app/.github/config",
            "/srv/app/.claude/settings.json",
            "/srv/app/auth.json",
            "/srv/app/settings.xml",
            "/srv/app/token",
            "/srv/app/.env-example",
            "/srv/app/.dev.vars.example",
            "/srv/app/variables.tf",
            "/srv/app/terraform.tfvars.example",
            "/srv/app/.vscode/settings.json",
            "/srv/app/.zed/settings.json",
            "/srv/app/mcp.json",
        ] {
            assert!(!may_hold_secrets(Path::new(plain)), "{plain}");
        }
    }

    #[test]
    fn a_copy_of_a_secret_file_is_recognised_by_its_original() {
        for copy in [
            "/srv/app/.env~",
            "/srv/app/prod.env.bak",
            "/srv/app/server.key.bak.12",
            "/srv/app/server.pem.OLD",
            "/srv/app/secrets.yml.orig",
            "/home/u/.npmrc.save",
            "/home/u/.pgpass.bak.old~",
            "/srv/app/.server.pem.swp",
            "/srv/app/.credentials.json.swp",
            "/srv/app/.env.swp",
            "/srv/app/.git/config.bak",
            "/home/u/.aws.old/credentials",
            "/home/u/.docker/config.json.bak",
        ] {
            assert!(may_hold_secrets(Path::new(copy)), "{copy}");
        }
        for plain in [
            "/srv/app/main.rs~",
            "/srv/app/main.rs.bak.1",
            "/srv/app/.main.rs.swp",
            "/srv/app/.bak",
            "/srv/app/~",
            "/srv/app/data.1",
            "/srv/app/ä~",
        ] {
            assert!(!may_hold_secrets(Path::new(plain)), "{plain}");
        }
    }

    #[test]
    fn places_that_decide_which_programs_run_are_recognised_in_every_workspace() {
        for steering in [
            ".devcontainer/devcontainer.json",
            ".zed/tasks.json",
            ".windsurf/x",
            ".codex/config.toml",
            ".gemini/settings.json",
            "sub/.cargo/config.toml",
            ".pre-commit-config.yaml",
            "LEFTHOOK.yml",
            "bunfig.toml",
            ".bashrc",
            ".bash_profile",
            ".profile",
            ".zshenv",
            ".zshrc",
            ".gitconfig",
            ".config/git/config",
            ".config/fish/config.fish",
            ".config/autostart/x.desktop",
            ".config/systemd/user/x.service",
            ".local/bin/ls",
            ".vimrc",
            ".tool-versions",
            ".junie/mcp/mcp.json",
            ".github/mcp.json",
            ".github/copilot-instructions.md",
            "AGENTS.md",
            "sub/claude.md",
            "GEMINI.md",
            ".cursorrules",
            ".crush.json",
            ".trae/rules/x.md",
            "WARP.md",
            "rust-toolchain.toml",
            "rust-toolchain",
            ".mvn/extensions.xml",
            ".ghci",
            ".Rprofile",
            ".irbrc",
            ".bundle/config",
            ".gradle/init.d/a.gradle",
            ".bazelrc",
            ".ipython/profile_default/startup/a.py",
            ".jj/repo/config.toml",
            ".helix/languages.toml",
            ".lvimrc",
            ".bash_completion",
            ".oh-my-zsh/custom/a.zsh",
            ".config/i3/config",
            ".config/sway/config",
            ".config/kitty/kitty.conf",
            ".wezterm.lua",
            "lib/usercustomize.py",
            "lib/sitecustomize.py",
            ".githooks/pre-commit",
            "lefthook-local.toml",
            ".lefthook.json",
            "app.code-workspace",
            "lib/evil.pth",
            ".pnpmfile.mjs",
            "web/node_modules/.bin/tsc",
            ".venv/bin/activate",
            ".config/Code - OSS/User/settings.json",
            ".config/emacs/init.el",
            ".github/hooks/a.json",
            ".claude-plugin/plugin.json",
            ".local/share/dbus-1/services/a.service",
            ".config/plasma-workspace/env/a.sh",
            ".bashrc.d/a",
            ".nvm/nvm.sh",
            ".Renviron",
            ".iex.exs",
        ] {
            assert!(steers_programs(Path::new("/home/u"), Path::new(steering)), "{steering}");
        }
        for plain in
            ["src/cargo/config.toml", "autostart/x", "bin/ls", ".github/workflows/ci.yml", "src/code/user/a.rs"]
        {
            assert!(!steers_programs(Path::new("/home/u"), Path::new(plain)), "{plain}");
        }
        assert!(steers_programs(Path::new("/home/u/.config"), Path::new("autostart/x.desktop")));
        assert!(!steers_programs(Path::new("/home/u/.config/nvim"), Path::new("init.lua")), "the workspace was chosen");
    }

    #[test]
    fn files_that_expose_a_process_are_recognised() {
        assert!(shows_process(Path::new("/proc/12/task/13/environ")) && !shows_process(Path::new("/srv/environ")));
    }
}
