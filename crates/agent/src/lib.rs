//! leeway-agent
