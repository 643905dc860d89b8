use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;

fn strict() -> TargetPolicy {
    TargetPolicy::default()
}

fn refused(url: &str, policy: &TargetPolicy) -> String {
    match Target::parse(url, policy) {
        Ok(target) => panic!("{url} was accepted as {target}"),
        Err(error) => error.to_string(),
    }
}

#[derive(Debug)]
struct Fixed(Vec<IpAddr>);

impl Resolver for Fixed {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

async fn resolve(url: &str, policy: &TargetPolicy, addresses: &[&str]) -> Result<Vec<SocketAddr>, TargetError> {
    let addresses = Fixed(addresses.iter().map(|text| text.parse().unwrap()).collect());
    Target::parse(url, policy).unwrap().resolve(policy, &addresses).await
}

#[test]
fn public_https_targets_are_accepted() {
    for url in [
        "https://hooks.example.com/services/T0/B0",
        "https://hooks.example.com:8443/?a=b#fragment",
        "https://8.8.8.8/",
        "https://[2606:4700:4700::1111]/",
        "https://bücher.example/",
    ] {
        assert!(Target::parse(url, &strict()).is_ok(), "{url}");
    }
}

#[test]
fn w_06_every_spelling_of_an_inner_address_is_blocked() {
    for url in [
        // Loopback: plain, short, decimal, octal, hexadecimal, mixed, full-width digits, percent-encoded, trailing dot.
        "https://127.0.0.1/",
        "https://127.1/",
        "https://2130706433/",
        "https://017700000001/",
        "https://0177.0.0.1/",
        "https://0x7f000001/",
        "https://0x7f.0.0.0x1/",
        "https://１２７.0.0.1/",
        "https://%31%32%37.0.0.1/",
        "https://127.0.0.1./",
        "https://127。0。0。1/",
        "https://0/",
        "https://[::1]/",
        "https://[::]/",
        // Hidden in IPv6: mapped, compatible, translated, NAT64, local NAT64, 6to4, Teredo.
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::ffff:8.8.8.8]/",
        "https://[::127.0.0.1]/",
        "https://[::ffff:0:127.0.0.1]/",
        "https://[64:ff9b::127.0.0.1]/",
        "https://[64:ff9b::8.8.8.8]/",
        "https://[64:ff9b:1::a00:1]/",
        "https://[2002:7f00:1::]/",
        "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
        // The ranges.
        "https://0.1.2.3/",
        "https://10.0.0.1/",
        "https://100.64.0.1/",
        "https://100.127.255.254/",
        "https://169.254.169.254/",
        "https://2852039166/",
        "https://172.16.0.1/",
        "https://172.31.255.255/",
        "https://192.0.0.8/",
        "https://192.0.2.1/",
        "https://192.88.99.1/",
        "https://192.168.1.1/",
        "https://198.18.0.1/",
        "https://198.51.100.7/",
        "https://203.0.113.9/",
        "https://224.0.0.1/",
        "https://240.0.0.1/",
        "https://255.255.255.255/",
        "https://[fc00::1]/",
        "https://[fd00:ec2::254]/",
        "https://[fe80::1]/",
        "https://[fec0::1]/",
        "https://[ff02::1]/",
        "https://[100::1]/",
        "https://[2001:db8::1]/",
        "https://[3fff::1]/",
        "https://[5f00::1]/",
        // Public by its range, a metadata service all the same.
        "https://168.63.129.16/",
    ] {
        let error = refused(url, &strict());
        assert!(error.contains("is blocked"), "{url}: {error}");
    }
}

#[test]
fn w_06_names_that_say_that_they_are_this_machine_or_a_metadata_service_are_blocked() {
    for host in ["localhost", "LOCALHOST", "hooks.localhost", "localhost.localdomain", "ip6-localhost", "%6cocalhost"] {
        let error = refused(&format!("https://{host}/hook"), &strict());
        assert!(error.contains("is blocked") && error.contains("webhooks.allowed_networks"), "{host}: {error}");
        for policy in [TargetPolicy::loopback(), TargetPolicy { allow_http: false, ..TargetPolicy::loopback() }] {
            assert!(Target::parse(&format!("https://{host}/hook"), &policy).is_ok(), "the operator allows it: {host}");
        }
    }
    assert!(refused("https://10.0.0.1/", &strict()).contains("ask the operator to list its network"));
    for host in ["metadata.google.internal", "Metadata.Google.Internal", "metadata", "instance-data"] {
        for policy in [strict(), TargetPolicy::loopback()] {
            let error = refused(&format!("https://{host}/"), &policy);
            assert!(error.contains("metadata service"), "{host}: {error}");
        }
    }
    for host in ["localhost.example.com", "notlocalhost", "metadata.example.com"] {
        assert!(Target::parse(&format!("https://{host}/"), &strict()).is_ok(), "{host}");
    }
}

#[test]
fn the_neighbours_of_the_blocked_ranges_are_public() {
    for address in [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2001:200::",
        "2001:db7:ffff::1",
        "2001:db9::",
        "2003::",
        "3ffe:ffff::",
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(strict().check_address(address, false), Ok(()), "{address}");
    }
}

#[test]
fn w_06_urls_of_another_form_are_refused() {
    for (url, part) in [
        ("http://hooks.example.com/", "plain http"),
        ("ftp://hooks.example.com/", "scheme 'ftp'"),
        ("file:///etc/passwd", "scheme 'file'"),
        ("gopher://x/", "scheme 'gopher'"),
        ("https://user@hooks.example.com/", "user or password"),
        ("https://user:canary@hooks.example.com/", "user or password"),
        ("https://:canary@hooks.example.com/", "user or password"),
        ("https://hooks.example.com@10.0.0.1/", "user or password"),
        ("https://hooks.example.com./", "ends with a dot"),
        ("https://localhost./", "ends with a dot"),
        ("https://hooks.example.com:22/", "port 22"),
        ("https://hooks.example.com:80/", "port 80"),
        ("https://hooks.example.com:0/", "port 0"),
        ("https://[::1%25eth0]/", "not a url"),
        ("https://1.2.3.4.5/", "not a url"),
        ("https://256.0.0.1/", "not a url"),
        ("https://", "not a url"),
        ("//hooks.example.com", "not a url"),
        ("", "not a url"),
        (&format!("https://hooks.example.com/{}", "a".repeat(URL_BYTES_MAX)), "longer than"),
    ] {
        let error = refused(url, &strict());
        assert!(error.contains(part), "{url}: {error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

#[test]
fn metadata_services_stay_blocked_in_allowed_networks() {
    let everything = TargetPolicy {
        allow_http: true,
        allowed_networks: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
        allowed_ports: Ports::Any,
    };
    for host in [
        "169.254.169.254",
        "169.254.170.2",
        "2852039166",
        "0xa9fea9fe",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
        "[2002:a9fe:a9fe::1]",
        "0.0.0.0",
        "224.0.0.1",
        "[ff02::1]",
    ] {
        let error = refused(&format!("http://{host}:8080/latest/meta-data"), &everything);
        assert!(error.contains("is blocked"), "{host}: {error}");
    }
    assert!(Target::parse("http://10.0.0.1:8080/", &everything).is_ok());
}

#[test]
fn an_operator_allows_networks_plain_http_and_ports_one_by_one() {
    let private = TargetPolicy { allowed_networks: vec!["10.0.0.0/8".parse().unwrap()], ..strict() };
    assert!(Target::parse("https://10.1.2.3/", &private).is_ok());
    assert!(refused("https://192.168.0.1/", &private).contains("private"));
    assert!(refused("http://10.1.2.3/", &private).contains("plain http"));
    assert!(refused("https://[::ffff:10.1.2.3]/", &private).contains("hidden"));

    let plain = TargetPolicy { allow_http: true, allowed_ports: Ports::Only(vec![80, 443]), ..private };
    assert!(Target::parse("http://10.1.2.3/", &plain).is_ok());
    // Plain http never goes out to the public network, where anyone on the way can read it.
    assert!(refused("http://8.8.8.8/", &plain).contains("plain http"));
    assert!(refused("https://8.8.8.8:8443/", &plain).contains("port 8443"));
}

#[tokio::test]
async fn w_05_a_name_is_refused_when_any_of_its_addresses_is_blocked() {
    let url = "https://hooks.example.com:8443/x";
    assert_eq!(
        resolve(url, &strict(), &["8.8.8.8", "2606:4700:4700::1111"]).await.unwrap(),
        ["8.8.8.8:8443".parse().unwrap(), "[2606:4700:4700::1111]:8443".parse().unwrap()]
    );
    for addresses in
        [&["10.0.0.1"][..], &["8.8.8.8", "127.0.0.1"], &["8.8.8.8", "::ffff:8.8.8.8"], &["fe80::1", "8.8.8.8"]]
    {
        let error = resolve(url, &strict(), addresses).await.unwrap_err();
        assert!(matches!(error, TargetError::NotPublic { .. }), "{addresses:?}: {error}");
    }
    let many: Vec<String> = (0..40).map(|last| format!("8.8.8.{last}")).chain(["10.0.0.1".to_owned()]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(resolve(url, &strict(), &many).await.is_err());
    assert_eq!(resolve(url, &strict(), &many[..40]).await.unwrap().len(), ADDRESSES_MAX);
    assert!(matches!(resolve(url, &strict(), &[]).await, Err(TargetError::Unresolved(_))));
}

#[tokio::test]
async fn plain_http_names_must_lie_wholly_in_allowed_networks() {
    let policy = TargetPolicy::loopback();
    assert!(resolve("http://hooks.example.com:9/", &policy, &["127.0.0.1", "::1"]).await.is_ok());
    let error = resolve("http://hooks.example.com:9/", &policy, &["127.0.0.1", "8.8.8.8"]).await.unwrap_err();
    assert_eq!(error, TargetError::PlainHttp);
}

#[tokio::test]
async fn the_system_resolver_finds_this_machine() {
    let found = SystemResolver.resolve("localhost").await.unwrap();
    assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty(), "{found:?}");
}

#[test]
fn w_14_a_target_shows_only_its_origin() {
    let target = Target::parse("https://hooks.example.com/canary?canary#canary", &strict()).unwrap();
    assert_eq!(format!("{target} {target:?}"), "https://hooks.example.com/… https://hooks.example.com/…");
}

proptest! {
    #[test]
    fn any_text_is_accepted_or_refused_without_a_panic(text in "(https?://)?\\PC{0,60}") {
        let _ = Target::parse(&text, &TargetPolicy::loopback());
    }

    #[test]
    fn no_ipv4_address_can_be_reached_through_its_ipv6_forms(bits: u32) {
        let [a, b, c, d] = bits.to_be_bytes().map(u16::from);
        let (high, low) = (a << 8 | b, c << 8 | d);
        for address in [
            Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
            Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ] {
            prop_assert!(strict().check_address(address.into(), false).is_err(), "{}", address);
        }
    }
}
