//! Language models on the wire: the contract between the agent and whoever has models, and the services that do.

mod contract;

pub use contract::{
    Heard, Listener, ModelError, ModelOption, Models, Piece, Round, Said, Segment, Thinking, ToolOffer, Usage,
    WantedCall,
};
