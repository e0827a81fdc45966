//! `gladhand policy`: explains what policy makes of a call, and approves definitions that changed.

use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::anyhow;
use gladhand_hub::policy::{Kind, PinMode, Policy, What, Who};
use gladhand_hub::{BETWEEN, Provider, SessionId};
use gladhand_operations::Tool;
use gladhand_wire::{RawValue, json};

use crate::cli::{PolicyApproveArgs, PolicyArgs, PolicyCommand, PolicyTestArgs};
use crate::commands::changes::changes;
use crate::commands::plain::{plain, plain_lines};
use crate::commands::settings::{self, Part, Settings};
use crate::commands::{CommandError, print_json, written};
use crate::config::{self, Config};
use crate::exit::Exit;
use crate::pins::{self, PinFile, Waiting};
use crate::providers::Toolbox;

/// Does what was asked for.
pub fn run(args: &PolicyArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        PolicyCommand::Test(args) => test(args),
        PolicyCommand::Approve(args) => approve(args),
    }
}

fn test(args: &PolicyTestArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref());
    let loaded = settings::load(args.config.as_deref(), data.as_deref(), Part::AsWritten);
    let Settings { config, .. } = loaded.map_err(CommandError::usage)?;
    let policy = config.policy.policy(&config.profiles, &config.authorization.tool_scopes);
    let arguments = match (args.kind, args.args.as_str()) {
        // Conditions about a resource see its URI.
        (Kind::Resource, "{}") => json::to_raw(&serde_json::json!({ "uri": args.tool })),
        (_, text) => serde_json::from_str::<Box<RawValue>>(text)
            .map_err(|error| CommandError::usage(anyhow!("--args is not JSON: {error}")))?,
    };
    let ours = Toolbox.tools().into_iter().find(|tool| tool.name == args.tool);
    if ours.is_none() && args.kind == Kind::Tool && std::io::stderr().is_terminal() {
        let note =
            "no server is asked whether there is such a tool; rules see the name as it is shown, as in `git__push`";
        written(writeln!(anstream::stderr(), "note: {note}"))?;
    }
    let mut tool = ours.unwrap_or_else(|| Tool::plain(args.tool.clone(), ""));
    if args.read_only {
        tool = tool.with("annotations", &serde_json::json!({"readOnlyHint": true}));
    }
    let principal = args.principal.as_deref().map(|name| name.strip_prefix("principal:").unwrap_or(name));
    let who = Who { principal, client: &args.client, session: SessionId::NONE, scopes: None };
    let upstream = args.upstream.as_deref().unwrap_or_default();
    let mut prefixes = prefixes_of(args, &config);
    let prefix = prefixes.pop();
    let what = match args.kind {
        Kind::Tool => What::tool(upstream, &args.tool, &tool),
        Kind::Capability => {
            let capability = args.tool.split('/').next().unwrap_or_default();
            What::named(args.kind, upstream, capability, &args.tool)
        }
        kind => What::named(kind, upstream, &args.tool, &args.tool),
    };
    let what = what.among(prefix.as_deref(), &prefixes);
    match args.json {
        true => print_json(&as_json(&policy, &who, &what, &arguments))?,
        false => written(writeln!(std::io::stdout(), "{}", plain_lines(&as_text(&policy, &who, &what, &arguments))))?,
    }
    Ok(Exit::Success.into())
}

/// The prefixes of configured upstreams that the name begins with, the longest last: the upstream that it belongs to.
fn prefixes_of(args: &PolicyTestArgs, config: &Config) -> Vec<String> {
    let enabled = config.upstreams.0.iter().filter(|(_, upstream)| upstream.enabled);
    let within = |prefix: &&str| args.tool.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(BETWEEN));
    let prefixes = enabled.filter_map(|(name, upstream)| upstream.effective_prefix(name)).filter(within);
    let mut prefixes: Vec<_> = prefixes.map(str::to_owned).collect();
    prefixes.sort_by_key(String::len);
    prefixes
}

fn as_json(policy: &Policy, who: &Who<'_>, what: &What<'_>, arguments: &RawValue) -> String {
    let explanation = policy.explain(who, what, arguments);
    let profile = policy.profile(who);
    let told = serde_json::json!({
        "kind": what.kind,
        "tool": what.name,
        "principal": who.principal,
        "client": who.client,
        "profile": profile.map(|profile| &profile.name),
        "seen_as": profile.map_or_else(|| Some(what.name.to_owned()), |profile| profile.shown(what)),
        "listed": policy.denied_always(who, what).is_none(),
        "decision": explanation.decision,
        "rules": explanation.rules,
    });
    told.to_string()
}

fn as_text(policy: &Policy, who: &Who<'_>, what: &What<'_>, arguments: &RawValue) -> String {
    let mut lines = vec![
        format!("{:<9} {} {}", what.kind.word(), what.name, arguments.get()),
        format!("principal {}", who.principal.unwrap_or("-")),
        format!("client    {}", if who.client.is_empty() { "-" } else { who.client }),
    ];
    if let Some(profile) = policy.profile(who) {
        let seen = profile.shown(what).map_or_else(|| "not seen".to_owned(), |name| format!("seen as {name}"));
        lines.push(format!("profile   {}: {seen}", profile.name));
    }
    let explanation = policy.explain(who, what, arguments);
    for rule in &explanation.rules {
        lines.push(format!("rule      {} ({}): {}", rule.rule, rule.effect, rule.verdict));
    }
    if explanation.rules.is_empty() {
        lines.push("rule      there are none".to_owned());
    }
    if policy.denied_always(who, what).is_some() {
        lines.push("list      not listed: it is denied whatever the arguments".to_owned());
    }
    lines.push(format!("decision  {}", explanation.decision));
    lines.join("\n")
}

fn approve(args: &PolicyApproveArgs) -> Result<ExitCode, CommandError> {
    let folder = config::data_dir(args.data_dir.as_deref()).ok_or_else(|| anyhow!("there is no data folder"))?;
    let file = PinFile::open(folder.join(pins::NAME))?;
    let loaded = settings::load(args.config.as_deref(), Some(&folder), Part::WithoutUpstreams);
    let Settings { config, .. } = loaded.map_err(CommandError::usage)?;
    if config.policy.pin == PinMode::Off {
        let note = "`pin` of [policy] is off in this configuration: no tool is stopped when it changes";
        written(writeln!(anstream::stderr(), "note: {note}"))?;
    }
    let mut out = std::io::stdout();
    if args.names.is_empty() {
        for Waiting { name, since, at, texts } in file.waiting() {
            written(writeln!(out, "{}: known since {since}, seen to be something else at {at}", plain(&name)))?;
            let changed = match texts {
                Some((before, after)) => changes(&before, &after),
                None => vec!["what changed is not known: the definition was not kept".to_owned()],
            };
            for line in changed {
                written(writeln!(out, "    {line}"))?;
            }
        }
        return Ok(Exit::Success.into());
    }
    let approved = file.approve(&args.names)?;
    if approved.is_empty() {
        let error = anyhow!("nothing of that name waits to be approved");
        return Err(CommandError::new(Exit::Failure, error).hint("without a name, what waits is listed"));
    }
    for name in approved {
        written(writeln!(out, "approved {}", plain(&name)))?;
    }
    Ok(Exit::Success.into())
}
