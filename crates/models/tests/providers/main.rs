//! Tests of all service clients against a scripted provider, over real sockets.

mod anthropic;
mod antigravity;
mod compatible;
mod faults;
mod openai;
mod openrouter;
mod retries;
mod scripts;
mod stage;
