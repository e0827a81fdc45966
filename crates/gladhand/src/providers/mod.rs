//! Providers that answer calls inside this process.

pub mod a2e_mcp;
pub mod agent_tools;
pub(crate) mod capabilities;
pub mod repository;
pub mod toolbox;
mod unavailable;

pub use a2e_mcp::A2eMcp;
pub use agent_tools::AgentTools;
pub use repository::RepositoryTools;
pub use toolbox::Toolbox;
pub(crate) use unavailable::Unavailable;
