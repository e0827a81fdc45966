//! `gladhand config show`.

use std::fmt::Write as _;
use std::process::ExitCode;

use gladhand_redaction::redact_settings;
use serde::Serialize;
use serde_json::Value;

use super::ShowArgs;
use crate::commands::CommandError;
use crate::commands::shared::settings::{self, Part, Settings};
use crate::config::{self, Config, UpstreamConfig, text};

pub(super) fn run(args: &ShowArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref());
    let loaded = settings::load(args.config.as_deref(), data.as_deref(), Part::AsWritten, settings::note);
    let Settings { config, layers } = loaded.map_err(CommandError::usage)?;
    if args.json {
        return super::print_json(&without_secrets(&config)?);
    }
    let extent = if args.all { Extent::All } else { Extent::Different };
    let files: Vec<_> = layers.in_force().map(|file| file.path.display().to_string()).collect();
    let from = match (files.is_empty(), extent) {
        (false, Extent::All) => format!("# {}, and the defaults\n", files.join(" and ")),
        (false, Extent::Different) => format!("# {}; `--all` shows the defaults too\n", files.join(" and ")),
        (true, Extent::All) => "# There is no configuration file: these are the defaults.\n".to_owned(),
        (true, Extent::Different) => {
            "# There is no configuration file: the defaults hold, and `--all` shows them.\n".to_owned()
        }
    };
    super::print(&(from + &shown(&config, extent)?))
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    /// Settings that differ from their defaults.
    Different,
}

/// The settings as they could stand in a file.
fn shown(config: &Config, extent: Extent) -> Result<String, CommandError> {
    let (all, usual) = (without_secrets(config)?, serde_json::to_value(Config::default())?);
    let mut sections = vec![];
    for (name, section) in all.as_object().into_iter().flatten().filter(|(name, _)| *name != "upstreams") {
        sections.push((name.clone(), section.clone(), usual[name].clone()));
    }
    let usual = serde_json::to_value(UpstreamConfig::default())?;
    for (name, upstream) in &config.upstreams.0 {
        let name = format!("upstreams.{}", text::key(name));
        sections.push((name, without_secrets(upstream)?, usual.clone()));
    }
    let mut shown = String::new();
    for (name, section, usual) in &sections {
        let is_worth_it = |(key, value): &(&String, &Value)| {
            // Rules of a project are no key of a file.
            let is_key = name != "policy" || *key != "narrowing";
            is_key && !value.is_null() && (extent == Extent::All || usual.get(key) != Some(value))
        };
        let lines = section.as_object().into_iter().flatten().filter(is_worth_it);
        let lines: String =
            lines.map(|(key, value)| format!("{} = {}\n", text::key(key), text::value(value))).collect();
        // An upstream is worth a line even if there is nothing to say of it.
        if extent == Extent::All || !lines.is_empty() || name.starts_with("upstreams.") {
            // A string takes everything.
            let _ = write!(shown, "\n[{name}]\n{lines}");
        }
    }
    Ok(shown)
}

/// Settings as JSON, with what is secret in addresses and command lines masked.
fn without_secrets(settings: &impl Serialize) -> Result<Value, CommandError> {
    let mut value = serde_json::to_value(settings)?;
    redact_settings(&mut value);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Reading;

    #[test]
    fn config_show_prints_readable_toml_without_secrets() {
        let text = "[a2e]\ntokens = ['hush']\n[upstreams.b]\nurl = 'https://ann:hush@x.example/?key=hush&a=${secret:a}'\n\
                    bearer = 'hush'\nauth = 'oauth'\n[upstreams.a]\ncommand = ['x', '${HOME}']\n\
                    args = ['--password=hush', '--token', 'hush', 'postgres://ann:hush@db/x', '--key', '${secret:k}']\n\
                    env = { A = 'hush', B = '${secret:b}', C = 'hush ${C:-hush}' }\n";
        let config = config::parse(text, Reading::AsWritten).unwrap();
        let all = shown(&config, Extent::All).unwrap();
        assert!(all.contains("\n[limits]\n") && all.contains("\ndrain_ms = ") && !all.contains("hush"), "{all}");
        let shown = shown(&config, Extent::Different).unwrap();
        assert!(!shown.contains("[limits]") && !shown.contains("timeout_ms"), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains(r#"env = { A = "***", B = "${secret:b}", C = "***${C:-***}" }"#), "{shown}");
        assert!(shown.contains(r#"url = "https://***@x.example/?key=***&a=${secret:a}""#), "{shown}");
        assert!(shown.contains(r#"auth = "oauth""#) && shown.contains(r#""--key", "${secret:k}""#), "{shown}");
        assert!(shown.find("[upstreams.b]") < shown.find("[upstreams.a]"), "{shown}");
        let again = config::parse(&shown, Reading::AsWritten).unwrap();
        assert_eq!(again.upstreams.0[1].1.command, ["x", "${HOME}"]);
    }
}
