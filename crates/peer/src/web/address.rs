//! Which addresses are of the public internet, and what the others are.
//!
//! An IPv6 address that carries an IPv4 one (mapped, translated, 6to4, ISATAP, …) is judged by what it carries too.
//! Pure: the tables of IANA as code. Not here: names, and looking them up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Public,
    /// This machine.
    Loopback,
    /// A network of one's own: home, office, data centre, provider.
    Private,
    /// For whoever is on the same cable.
    LinkLocal,
    /// Where clouds hand out the keys of a machine.
    Metadata,
    /// Nobody is there, or not one: unspecified, multicast, documentation, reserved.
    Special,
}

impl Kind {
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => of_v4(v4),
            IpAddr::V6(v6) => of_v6(v6),
        }
    }

    /// Whether it may be called where private targets are allowed.
    pub fn is_near(self) -> bool {
        matches!(self, Self::Loopback | Self::Private | Self::LinkLocal)
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Public => "an address of the public internet",
            Self::Loopback => "an address of this machine",
            Self::Private => "an address of a private network",
            Self::LinkLocal => "an address of the local link",
            Self::Metadata => "an address where clouds give out credentials",
            Self::Special => "an address that is nobody's",
        }
    }
}

/// Blocks that are not public: the first bytes, how many bits of them count, and what they are. The first that fits.
// tidy: table
const V4: &[([u8; 4], u32, Kind)] = &[
    ([169, 254, 169, 254], 32, Kind::Metadata), // AWS, Azure, Google and most others
    ([169, 254, 170, 0], 24, Kind::Metadata),   // containers on AWS
    ([100, 100, 100, 200], 32, Kind::Metadata), // Alibaba
    ([192, 0, 0, 192], 32, Kind::Metadata),     // Oracle
    ([168, 63, 129, 16], 32, Kind::Metadata),   // Azure's wire server
    ([0, 0, 0, 0], 8, Kind::Special),           // this network; 0.0.0.0 is this machine on Linux
    ([10, 0, 0, 0], 8, Kind::Private),
    ([100, 64, 0, 0], 10, Kind::Private), // carrier-grade NAT
    ([127, 0, 0, 0], 8, Kind::Loopback),
    ([169, 254, 0, 0], 16, Kind::LinkLocal),
    ([172, 16, 0, 0], 12, Kind::Private),
    ([192, 0, 0, 0], 24, Kind::Special),    // protocol assignments
    ([192, 0, 2, 0], 24, Kind::Special),    // documentation
    ([192, 31, 196, 0], 24, Kind::Special), // AS112
    ([192, 52, 193, 0], 24, Kind::Special), // AMT
    ([192, 88, 99, 0], 24, Kind::Special),  // 6to4 relays
    ([192, 168, 0, 0], 16, Kind::Private),
    ([192, 175, 48, 0], 24, Kind::Special), // AS112
    ([198, 18, 0, 0], 15, Kind::Private),   // benchmarking
    ([198, 51, 100, 0], 24, Kind::Special), // documentation
    ([203, 0, 113, 0], 24, Kind::Special),  // documentation
    ([224, 0, 0, 0], 4, Kind::Special),     // multicast
    ([240, 0, 0, 0], 4, Kind::Special),     // reserved, and broadcast
];

fn of_v4(address: Ipv4Addr) -> Kind {
    let bits = address.to_bits();
    let fits = |block: &[u8; 4], count: u32| {
        let mask = u32::MAX.checked_shl(32 - count).unwrap_or(0);
        bits & mask == u32::from_be_bytes(*block) & mask
    };
    let found = V4.iter().find(|(block, count, _)| fits(block, *count));
    found.map_or(Kind::Public, |(_, _, kind)| *kind)
}

fn of_v6(address: Ipv6Addr) -> Kind {
    let bits = address.to_bits();
    let within = |block: &str, count: u32| {
        let block: Ipv6Addr = block.parse().unwrap_or(Ipv6Addr::UNSPECIFIED);
        let mask = u128::MAX.checked_shl(128 - count).unwrap_or(0);
        bits & mask == block.to_bits() & mask
    };
    let last = Ipv4Addr::from_bits((bits & 0xffff_ffff) as u32);
    if address == Ipv6Addr::LOCALHOST {
        return Kind::Loopback;
    }
    if address == Ipv6Addr::UNSPECIFIED {
        return Kind::Special;
    }
    // Mapped: the system itself calls the IPv4 address.
    if within("::ffff:0:0", 96) {
        return of_v4(last);
    }
    // Compatible (old), translated (SIIT), and translators: good only for whom the inner one is good.
    if within("::", 96) || within("::ffff:0:0:0", 96) || within("64:ff9b::", 96) {
        return carried(last);
    }
    if within("fd00:ec2::254", 128) || within("fd20:ce::254", 128) || within("fd00:c1::a9fe:a9fe", 128) {
        return Kind::Metadata;
    }
    if within("fc00::", 7) || within("fec0::", 10) || within("64:ff9b:1::", 48) {
        return Kind::Private;
    }
    if within("fe80::", 10) {
        return Kind::LinkLocal;
    }
    if within("2002::", 16) {
        return carried(Ipv4Addr::from_bits((bits >> 80) as u32));
    }
    let is_special = !within("2000::", 3)
        || within("2001::", 23)
        || within("2001:db8::", 32)
        || within("3fff::", 20)
        || within("2620:4f:8000::", 48);
    if is_special {
        return Kind::Special;
    }
    // ISATAP: a tunnel to the IPv4 address in its second half.
    let half = (bits >> 32) as u32;
    if half & !0x0200_0000 == 0x0000_5efe { carried(last) } else { Kind::Public }
}

/// For an address that wraps an IPv4 one: public only if that is; never a way to this machine.
fn carried(inner: Ipv4Addr) -> Kind {
    match of_v4(inner) {
        Kind::Loopback => Kind::Special,
        kind => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_address() {
        use Kind::{LinkLocal, Loopback, Metadata, Private, Public, Special};
        let table = [
            (
                Public,
                "8.8.8.8 1.1.1.1 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 169.253.0.1 9.255.255.255",
            ),
            (
                Public,
                "11.0.0.0 126.255.255.255 128.0.0.1 192.167.0.1 192.169.0.1 198.17.0.1 198.20.0.0 223.255.255.255",
            ),
            (Loopback, "127.0.0.1 127.0.0.0 127.1.2.3 127.255.255.255 ::1 ::ffff:127.0.0.1 ::ffff:7f00:1"),
            (
                Private,
                "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 100.127.255.255",
            ),
            (Private, "198.18.0.1 198.19.255.255 fc00::1 fd12:3456::1 fec0::1 64:ff9b:1::1 ::ffff:10.0.0.1"),
            (
                Private,
                "::10.0.0.1 64:ff9b::192.168.1.1 2002:0a00:0001::1 2001:4860::5efe:10.0.0.1 2001:4860::200:5efe:10.0.0.1",
            ),
            (LinkLocal, "169.254.0.1 169.254.255.255 fe80::1 febf::1 ::ffff:169.254.1.1"),
            (
                Metadata,
                "169.254.169.254 169.254.170.2 100.100.100.200 192.0.0.192 168.63.129.16 fd00:ec2::254",
            ),
            (
                Metadata,
                "::ffff:169.254.169.254 ::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 ::169.254.169.254",
            ),
            (
                Special,
                "0.0.0.0 0.1.2.3 192.0.0.1 192.0.2.1 198.51.100.1 203.0.113.9 224.0.0.1 239.255.255.255",
            ),
            (
                Special,
                "240.0.0.1 255.255.255.255 192.88.99.1 :: ff02::1 ff0e::1 2001:db8::1 3fff::1 2001::1 2001:2::1",
            ),
            (
                Special,
                "2001:10::1 2001:20::1 100::1 5f00::1 4000::1 ::2 ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::1",
            ),
            (Special, "::ffff:0:127.0.0.1 ::ffff:0.0.0.0 2001:4860::5efe:7f00:1"),
            (
                Public,
                "2606:4700:4700::1111 2001:4860:4860::8888 2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1",
            ),
        ];
        for (kind, addresses) in table {
            for raw in addresses.split(' ') {
                let address: IpAddr = raw.parse().unwrap();
                assert_eq!(Kind::of(address), kind, "{raw}");
            }
        }
    }
}
