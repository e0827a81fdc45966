//! `gladhand login` and `gladhand logout`: signing in to a server ahead of time, and taking it back.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use gladhand_auth::Roots;
use gladhand_auth::client::{Record, Revocation, TokenStore as _};
use serde_json::json;
use url::Url;

use crate::commands::shared::arguments::ServerArgs;
use crate::commands::shared::opened_server::Plan;
use crate::commands::shared::runtime::wait_for;
use crate::commands::shared::sign_in::{self, Manner};
use crate::commands::{CommandError, print_json, written};
use crate::exit::Exit;
use crate::terminal::text::plain;
use gladhand_client::upstream::Target;

const LOGIN_HELP: &str = "\
Opens a session with the server. If the server requires authorization, you sign
in with a browser. Tokens are stored in the secret store (`gladhand secret
list`) and renewed automatically.

Examples:
  gladhand login https://example.org/mcp
  gladhand login --no-browser https://example.org/mcp";

/// Options of `login`.
#[derive(Debug, Args)]
#[command(after_help = LOGIN_HELP)]
pub struct LoginArgs {
    /// URL of the server.
    url: String,
    /// Print the URL of the sign-in page instead of opening a browser.
    #[arg(long)]
    no_browser: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Limit without any message of the server, in seconds; signing in may take five minutes.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

const LOGOUT_HELP: &str = "\
Tokens are revoked at the authorization server if it supports revocation, and
always deleted here.

Examples:
  gladhand logout https://example.org/mcp";

/// Options of `logout`.
#[derive(Debug, Args)]
#[command(after_help = LOGOUT_HELP)]
pub struct LogoutArgs {
    /// URL of the server.
    url: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Signs in.
pub fn login(args: LoginArgs) -> Result<ExitCode, CommandError> {
    let server = ServerArgs {
        client: "mcp".to_owned(),
        json: args.json,
        timeout: args.timeout,
        header: Vec::new(),
        ca: args.ca,
        config: None,
        data_dir: None,
        command: Vec::new(),
    };
    let url = server_url(&args.url)?;
    let mut plan = Plan::read(&server, Some(&args.url))?;
    let shown = plan.shown();
    // A token from the environment would get in without anything being kept.
    plan.options.authorizer = None;
    plan.sign_in = if args.no_browser { Manner::WithoutBrowser } else { Manner::OnPurpose };
    plan.run(None, |_| async move {
        let records = sign_in::tokens().ok_or_else(|| anyhow!("there is no home folder to keep tokens in"))?;
        let record = records.records(url.as_str())?.into_iter().find(|record| record.grant.is_some());
        report(&shown, record.as_ref(), args.json)?;
        Ok(Exit::Success.into())
    })
}

fn report(server: &str, record: Option<&Record>, as_json: bool) -> Result<(), CommandError> {
    let (issuer, grant) = (record.map(|record| &record.issuer), record.and_then(|record| record.grant.as_ref()));
    if as_json {
        let report = json!({
            "server": server,
            "signed_in": record.is_some(),
            "issuer": issuer,
            "scopes": grant.map(|grant| &grant.scopes),
            "renew_at": grant.and_then(|grant| grant.renew_at),
            "renewable": grant.map(|grant| grant.refresh_token.is_some()),
        });
        return print_json(&report.to_string());
    }
    let text = match issuer {
        Some(issuer) => format!("signed in to {server} with {}", plain(issuer)),
        None => format!("{server} lets us in without signing in"),
    };
    written(writeln!(anstream::stdout(), "{text}"))
}

/// Signs out.
pub fn logout(args: &LogoutArgs) -> Result<ExitCode, CommandError> {
    let url = server_url(&args.url)?;
    let server = Target::Url(url.clone()).to_string();
    let roots = Roots::read(args.ca.as_deref()).map_err(CommandError::usage)?;
    let authorizer = sign_in::non_interactive_authorizer(&url, &roots)
        .ok_or_else(|| CommandError::usage(anyhow!("{server} is not an address that credentials travel to")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = wait_for(&runtime, authorizer.sign_out())?;
    if args.json {
        let each = ended.iter().map(|(issuer, revocation)| match revocation {
            Revocation::Done => json!({"issuer": issuer, "revoked": true}),
            Revocation::Unsupported => json!({"issuer": issuer, "revoked": false}),
            Revocation::Failed(error) => json!({"issuer": issuer, "revoked": false, "why": error.to_string()}),
        });
        let report = json!({"server": server, "forgotten": each.collect::<Vec<_>>()});
        print_json(&report.to_string())?;
        return Ok(Exit::Success.into());
    }
    let mut text = String::new();
    for (issuer, revocation) in &ended {
        let what = match revocation {
            Revocation::Done => "revoked and forgot what".to_owned(),
            Revocation::Unsupported => "forgot what".to_owned(),
            Revocation::Failed(error) => format!("could not revoke ({error}), and forgot, what"),
        };
        text += &plain(&format!("{what} {issuer} gave us"));
        text.push('\n');
    }
    if ended.is_empty() {
        text = format!("we are not signed in to {server}\n");
    }
    written(anstream::stdout().write_all(text.as_bytes()))?;
    Ok(Exit::Success.into())
}

fn server_url(text: &str) -> Result<Url, CommandError> {
    match Target::parse(&[text.to_owned()]) {
        Ok(Target::Url(url)) => Ok(url),
        Ok(Target::Command(_)) => Err(CommandError::usage(anyhow!("`{text}` is no URL of a server"))),
        Err(error) => Err(CommandError::usage(error)),
    }
}
