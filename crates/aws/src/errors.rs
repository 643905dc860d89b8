//! What EC2's error codes mean. A state's reason (`Server.InsufficientInstanceCapacity`) holds the same codes.

use leeway_drivers::errors::ErrorTable;
use leeway_model::run::LaunchErrorClass::{Capacity, Denied, Invalid, Permanent, Quota, Throttled, Transient};

/// In lower case, the more special before the more general.
pub const CODES: ErrorTable = &[
    ("insufficientinstancecapacity", Capacity),
    ("insufficienthostcapacity", Capacity),
    ("insufficientreservedinstancecapacity", Capacity),
    ("insufficientcapacity", Capacity),
    ("spotinstancetermination", Capacity),
    ("spotinstanceshutdown", Capacity),
    ("spotmaxpricetoolow", Capacity),
    ("maxspotinstancecountexceeded", Quota),
    ("instancelimitexceeded", Quota),
    ("vcpulimitexceeded", Quota),
    ("volumelimitexceeded", Quota),
    ("maxiopslimitexceeded", Quota),
    ("insufficientfreeaddressesinsubnet", Quota),
    ("requestlimitexceeded", Throttled),
    ("throttl", Throttled),
    ("requestthrottled", Throttled),
    ("unauthorizedoperation", Denied),
    ("authfailure", Denied),
    ("optinrequired", Denied),
    ("pendingverification", Denied),
    ("accessdenied", Denied),
    ("invalidclienttokenid", Denied),
    ("requestexpired", Denied),
    ("expiredtoken", Denied),
    ("credentials", Denied),
    ("blocked", Denied),
    ("unsupported", Permanent),
    ("invalid", Invalid),
    ("missingparameter", Invalid),
    ("unknownparameter", Invalid),
    ("internalerror", Transient),
    ("internalfailure", Transient),
    ("server.internal", Transient),
    ("serviceunavailable", Transient),
    ("unavailable", Transient),
    ("no answer", Transient),
];

#[cfg(test)]
mod tests {
    use leeway_drivers::errors::classify;
    use leeway_model::run::LaunchErrorClass;

    use super::*;

    #[test]
    fn p_06_p_07_each_code_has_its_class() {
        let class = |code: &str| classify("aws", CODES, code);
        assert_eq!(class("InsufficientInstanceCapacity"), Capacity);
        assert_eq!(class("Server.InsufficientInstanceCapacity"), Capacity);
        assert_eq!(class("MaxSpotInstanceCountExceeded"), Quota);
        assert_eq!(class("VcpuLimitExceeded"), Quota);
        assert_eq!(class("RequestLimitExceeded"), Throttled);
        assert_eq!(class("UnauthorizedOperation"), Denied);
        assert_eq!(class("InvalidAMIID.NotFound"), Invalid);
        assert_eq!(class("Unsupported"), Permanent);
        assert_eq!(class("InternalError"), Transient);
        assert_eq!(class("SomethingOfNextYear"), LaunchErrorClass::Transient);
    }
}
