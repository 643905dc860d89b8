//! AWS EC2: instances as machines, and what its market says.
//!
//! A run is one `RunInstances` call: EC2 gives all instances or none, and the run's id is the client token under which a
//! call that is repeated makes nothing new. Everything that is made bears installation, cluster and run as tags; these
//! are looked at again right before anything is ended.
//!
//! What talks to EC2 is behind the feature `ec2`, since its SDK takes minutes to build.

mod config;
pub mod errors;
pub mod user_data;
pub mod visibility;

#[cfg(feature = "ec2")]
mod closed;
#[cfg(feature = "ec2")]
mod driver;
#[cfg(feature = "ec2")]
mod instances;
#[cfg(feature = "ec2")]
mod launch;
#[cfg(feature = "ec2")]
mod market;

pub use config::AwsConfig;
#[cfg(feature = "ec2")]
pub use driver::AwsDriver;
