//! `gladhand config show`.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use super::ShowArgs;
use crate::commands::CommandError;
use crate::config::{self, Config, Reading, text};

pub(super) fn run(args: &ShowArgs) -> Result<ExitCode, CommandError> {
    let (config, file) = config::load(args.config.as_deref(), Reading::AsWritten).map_err(CommandError::usage)?;
    if args.json {
        return super::print_json(&serde_json::to_value(&config)?);
    }
    let from = match &file {
        Some(file) => format!("# {}, and the defaults\n", file.path.display()),
        None => "# There is no configuration file: these are the defaults.\n".to_owned(),
    };
    super::print(&(from + &shown(&config)?))
}

/// The settings as they could stand in a file.
fn shown(config: &Config) -> Result<String, CommandError> {
    let mut shown = String::new();
    let mut sections = vec![];
    if let Value::Object(all) = serde_json::to_value(config)? {
        sections.extend(all.into_iter().filter(|(name, _)| name != "upstreams"));
    }
    for (name, upstream) in &config.upstreams.0 {
        sections.push((format!("upstreams.{}", text::key(name)), serde_json::to_value(upstream)?));
    }
    for (name, section) in &sections {
        // A string takes everything.
        let _ = writeln!(shown, "\n[{name}]");
        for (key, value) in section.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            let _ = writeln!(shown, "{} = {}", text::key(key), text::value(value));
        }
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_and_holds_no_secret() {
        let text = "[a2e]\ntokens = ['hush']\n[upstreams.b]\nurl = 'https://ann:hush@x.example/'\nbearer = 'hush'\n\
                    [upstreams.a]\ncommand = ['x', '${HOME}']\nenv = { A = 'hush', B = '${secret:b}' }\n";
        let config = config::parse(text, Reading::AsWritten).unwrap();
        let shown = shown(&config).unwrap();
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains(r#"env = { A = "***", B = "${secret:b}" }"#), "{shown}");
        assert!(shown.find("[upstreams.b]") < shown.find("[upstreams.a]"), "{shown}");
        let again = config::parse(&shown, Reading::AsWritten).unwrap();
        assert_eq!(again.upstreams.0[1].1.command, ["x", "${HOME}"]);
    }
}
