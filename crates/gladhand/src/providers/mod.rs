//! Who answers calls inside this process.

pub mod agent_tools;
pub mod repository;
pub mod toolbox;

pub use agent_tools::AgentTools;
pub use repository::RepositoryTools;
pub use toolbox::Toolbox;
