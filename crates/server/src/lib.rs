//! leeway-server
