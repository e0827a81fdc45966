//! What the configuration means to a server: its sections as the options of a service and of HTTP.

use std::time::Duration;

use gladhand_core::Secret;

use crate::authorization::{BadAuthorization, FollowedAccess};
use crate::config::{self, Config};
use gladhand_process::surroundings::Surroundings;
use gladhand_server::http::HttpOptions;
use gladhand_server::service::Limits;

/// Lets in whom `[authorization]` and `[a2e]` name, with one more token for agents. Returns whether that changed something.
pub(crate) fn follow(
    access: &FollowedAccess,
    config: &Config,
    token: Option<Secret>,
) -> Result<bool, BadAuthorization> {
    let admission = config.authorization.admission()?;
    Ok(access.follow(&admission, config.a2e.passes(token))?)
}

/// The folder and variables of an upstream's program.
pub(crate) fn surroundings(upstream: &config::UpstreamConfig) -> Surroundings {
    let config::Surroundings { folder, inherits, variables } = upstream.surroundings();
    Surroundings { folder, inherits, variables }
}

/// `[limits]`.
pub(crate) fn limits(section: &config::Limits) -> Limits {
    let config::Limits { line_bytes, in_flight, page_size, drain_ms } = *section;
    Limits { line_bytes, in_flight, page_size, drain: Duration::from_millis(drain_ms) }
}

/// `[http]`.
pub(crate) fn http_options(section: config::HttpConfig) -> HttpOptions {
    HttpOptions {
        allow_hosts: section.allow_hosts,
        allow_origins: section.allow_origins,
        connections: section.connections,
        sessions: section.sessions,
        idle: Duration::from_secs(section.idle_s),
        streams: section.streams,
        streams_per_session: section.streams_per_session,
        in_flight: section.in_flight,
        replay_bytes: section.replay_bytes,
        kept_bytes: section.kept_bytes,
        head: Duration::from_millis(section.head_ms),
        body: Duration::from_millis(section.body_ms),
        keep_alive: Duration::from_millis(section.keep_alive_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_configuration_has_the_defaults_of_the_file() {
        let config = Config::default();
        assert_eq!(format!("{:?}", limits(&config.limits)), format!("{:?}", Limits::default()));
        assert_eq!(format!("{:?}", http_options(config.http)), format!("{:?}", HttpOptions::default()));
    }
}
