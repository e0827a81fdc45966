//! Translates sections of the configuration to the options of the service, of HTTP and of upstreams.

mod admission;
mod upstream;

use std::time::Duration;

use gladhand_agent_tools::ToolSettings;
use gladhand_server::http::{AgentLimits, HttpOptions};
use gladhand_server::service::Limits;

use crate::config;
pub(crate) use admission::{follow, mistakes, passes, unusable_key_files};
pub(crate) use upstream::{target, upstream};

/// The bounds of `[a2e]` on sessions over HTTP.
pub(crate) fn agent_limits(section: &config::A2eConfig) -> AgentLimits {
    AgentLimits {
        sessions: section.sessions,
        idle: Duration::from_secs(section.idle_minutes * 60),
        handshake: Duration::from_secs(section.handshake_seconds),
    }
}

/// `[limits]`.
pub(crate) fn limits(section: &config::Limits) -> Limits {
    let config::Limits { line_bytes, in_flight, page_size, drain_ms, busy_poll } = *section;
    Limits { line_bytes, in_flight, page_size, drain: Duration::from_millis(drain_ms), busy_poll }
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

/// Keeps our own files, and what else is in the data folder, from the tools of the agent.
pub(crate) fn keep_from(files: &config::OwnFiles, settings: &mut ToolSettings) {
    settings.private.clone_from(&files.private);
    settings.sensitive = vec![files.data.clone()];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_configuration_has_the_defaults_of_the_file() {
        let config = config::Config::default();
        assert_eq!(format!("{:?}", limits(&config.limits)), format!("{:?}", Limits::default()));
        assert_eq!(format!("{:?}", agent_limits(&config.a2e)), format!("{:?}", AgentLimits::default()));
        assert_eq!(format!("{:?}", http_options(config.http)), format!("{:?}", HttpOptions::default()));
    }

    #[test]
    fn names_that_the_file_may_not_use_are_those_that_are_taken() {
        assert_eq!(gladhand_a2e_host::env::own_names(), config::OWN_ENVIRONMENTS);
    }
}
