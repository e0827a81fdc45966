//! File tools of the agent: secrets and system files are not read without approval.
