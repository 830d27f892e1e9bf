//! Tenants and their shares. Each use of a bounded resource is charged to the tenant that uses it.
//!
//! Invariants of [`Share::permits`]:
//! - A single tenant gets its share of the limit, and no more.
//! - A tenant that holds little may take more while anything is free. There is room for 128 such
//!   tenants, whatever the others hold.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::newtypes::AccessId;

/// The client to which the use of a bounded resource is charged: an access token, or a client
/// address where clients need no token. The nodes and the operator are one tenant, to which no
/// share applies.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tenant(u64);

impl Tenant {
    /// The nodes and the operator.
    pub const OPERATOR: Self = Self(0);

    /// Returns the tenant as a number, for [`Tenant::from_bits`].
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Set for addresses, clear for tokens, whose IDs are random.
    const IS_ADDRESS: u64 = 1 << 63;

    #[must_use]
    pub fn of_token(id: AccessId) -> Self {
        Self((id.0 & !Self::IS_ADDRESS).max(1))
    }

    fn is_token(self) -> bool {
        self != Self::OPERATOR && self.0 & Self::IS_ADDRESS == 0
    }

    /// Returns whether requests of both may be those of one client: no access token, or the same
    /// one, made them.
    #[must_use]
    pub fn is_one_client_with(self, other: Self) -> bool {
        self == other || !(self.is_token() || other.is_token())
    }

    /// Parses `operator`, `token:` with the ID of an access token, or `address:` with an address or
    /// with the hash that `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None => (text == "operator").then_some(Self::OPERATOR),
            Some(("token", id)) => AccessId::parse(id).map(Self::of_token),
            Some(("address", text)) => match (text.parse(), AccessId::parse(text)) {
                (Ok(address), _) => Some(Self::of_address(address)),
                (_, Some(hash)) if hash.0 & Self::IS_ADDRESS != 0 => Some(Self(hash.0)),
                _ => None,
            },
            Some(_) => None,
        }
    }

    /// Returns the tenant of an IPv4 address, or of the /64 network of an IPv6 address, because one
    /// host can own a whole /64. Two addresses with the same hash share one share.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        let hash = match address.to_canonical() {
            IpAddr::V4(address) => xxhash_rust::xxh3::xxh3_64(&address.octets()),
            IpAddr::V6(address) => xxhash_rust::xxh3::xxh3_64(&address.octets()[..8]),
        };
        Self(hash | Self::IS_ADDRESS)
    }
}

impl fmt::Display for Tenant {
    /// Writes an address as its hash: addresses can be distinguished but not read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match *self {
            Self::OPERATOR => return f.write_str("operator"),
            Self(bits) if bits & Self::IS_ADDRESS != 0 => "address",
            Self(_) => "token",
        };
        write!(f, "{kind}:{}", AccessId(self.0))
    }
}

/// The amount of a resource that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    pub count: u64,
    pub bytes: u64,
}

impl Held {
    fn add(&mut self, bytes: u64) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn sub(&mut self, bytes: u64) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The amount of a resource that each tenant holds. Derived from the records. A tenant that holds
/// nothing has no entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holdings {
    tenants: BTreeMap<Tenant, Held>,
    all: Held,
}

impl Holdings {
    #[must_use]
    pub fn of(&self, tenant: Tenant) -> Held {
        self.tenants.get(&tenant).copied().unwrap_or_default()
    }

    /// Returns the amount that all tenants hold together.
    #[must_use]
    pub fn all(&self) -> Held {
        self.all
    }

    /// Returns the tenant that holds the most, with its holdings. The operator and the nodes do not
    /// count, because no share applies to them. `apply` waits meanwhile, so this function examines
    /// the first 10,000 tenants only.
    #[must_use]
    pub fn largest(&self) -> Option<(Tenant, Held)> {
        let tenants = self.tenants.iter();
        let tenants = tenants.filter(|(tenant, _)| **tenant != Tenant::OPERATOR);
        let largest = tenants.take(10_000).max_by_key(|(_, held)| held.count);
        largest.map(|(tenant, held)| (*tenant, *held))
    }

    pub(crate) fn add(&mut self, tenant: Tenant, bytes: u64) {
        self.all.add(bytes);
        self.tenants.entry(tenant).or_default().add(bytes);
    }

    pub(crate) fn sub(&mut self, tenant: Tenant, bytes: u64) {
        self.all.sub(bytes);
        if let Some(held) = self.tenants.get_mut(&tenant) {
            held.sub(bytes);
            if held.count == 0 {
                self.tenants.remove(&tenant);
            }
        }
    }
}

/// The part of each bounded resource that one tenant may hold, in percent: 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u8);

impl Share {
    /// A single tenant may hold everything.
    pub const WHOLE: Self = Self(100);

    #[must_use]
    pub const fn of_percent(percent: u8) -> Option<Self> {
        match percent {
            1..=100 => Some(Self(percent)),
            _ => None,
        }
    }

    #[must_use]
    pub const fn percent(self) -> u8 {
        self.0
    }

    /// Returns whether a tenant that holds `held` units of a resource may take one more unit, while
    /// all tenants together, itself included, hold `used` of at most `limit` units.
    #[must_use]
    pub fn permits(self, held: u64, used: u64, limit: u64) -> bool {
        used < limit && held < self.most(used, limit)
    }

    /// The number of units up to which a tenant may take more, while all tenants together, itself
    /// included, hold `used` of at most `limit` units.
    ///
    /// The last quarter of the limit is reserved for tenants that hold less than 1/512 of it. In
    /// the first three quarters, a tenant may hold a fixed multiple of the free part (dynamic
    /// thresholds, Choudhury and Hahne 1998). The multiple is chosen so that a lone tenant reaches
    /// exactly its share. The more tenants hold a large part, the less each of them may add.
    #[must_use]
    pub fn most(self, used: u64, limit: u64) -> u64 {
        let small = (limit / SMALL_PARTS).max(1);
        let [share, used, limit] = [u64::from(self.0), used, limit].map(u128::from);
        let most = if self.is_fixed() {
            (share * limit).div_ceil(100)
        } else {
            let free = (POOL_PERCENT * limit).saturating_sub(100 * used);
            (share * free).div_ceil(100 * (POOL_PERCENT - share))
        };
        u64::try_from(most).unwrap_or(u64::MAX).max(small)
    }

    /// Returns whether the share does not depend on what other tenants hold.
    #[must_use]
    pub const fn is_fixed(self) -> bool {
        self.0 as u128 >= POOL_PERCENT
    }
}

/// A tenant that holds less than this fraction of a limit is small. The reserved quarter has room
/// for 128 small tenants.
const SMALL_PARTS: u64 = 512;

/// The percentage of a limit that is shared by the tenants that are not small.
const POOL_PERCENT: u128 = 75;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_and_an_address_are_different_tenants_and_a_network_is_one() {
        let of = |text: &str| Tenant::of_address(text.parse().unwrap());
        assert_ne!(of("127.0.0.1"), of("127.0.0.2"));
        assert_eq!(of("127.0.0.1"), of("::ffff:127.0.0.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert!(Tenant::of_token(AccessId(u64::MAX)) < of("127.0.0.1"));
        assert_ne!(Tenant::of_token(AccessId(1)), Tenant::OPERATOR);
    }

    #[test]
    fn a_tenant_is_read_as_it_is_written() {
        let address = Tenant::of_address("10.0.0.1".parse().unwrap());
        for tenant in [
            Tenant::OPERATOR,
            Tenant::of_token(AccessId(0x4711)),
            address,
        ] {
            assert_eq!(Tenant::parse(&tenant.to_string()), Some(tenant));
        }
        assert_eq!(Tenant::parse("address:10.0.0.1"), Some(address));
        let other = [
            "",
            "token",
            "token:1",
            "address:0000000000004711",
            "10.0.0.1",
        ];
        assert_eq!(other.map(Tenant::parse), [None; 5]);
    }

    /// Returns the number of units that a tenant gets if it takes units until it is refused.
    fn taken(share: Share, used: u64, limit: u64) -> u64 {
        let mut held = 0;
        while share.permits(held, used + held, limit) {
            held += 1;
        }
        held
    }

    #[test]
    fn a_tenant_alone_gets_its_share() {
        let share = |percent| Share::of_percent(percent).unwrap();
        assert_eq!(taken(share(25), 0, 100), 25);
        assert_eq!(taken(share(25), 0, 1_000_000), 250_000);
        assert_eq!(taken(share(100), 0, 100), 100);
        assert_eq!(taken(share(1), 0, 10), 1);
        assert_eq!(Share::of_percent(0), None);
        assert_eq!(Share::of_percent(101), None);
    }

    #[test]
    fn a_tenant_may_hold_less_while_others_hold_more() {
        let share = |percent| Share::of_percent(percent).unwrap();
        let of = |used| share(25).most(used, 2_000);
        assert_eq!([of(0), of(500), of(816), of(1_500)], [750, 500, 342, 3]);
        assert!(share(25).permits(341, 816, 2_000) && !share(25).permits(342, 816, 2_000));
        assert_eq!(share(80).most(1_999, 2_000), 1_600);
        assert!(share(80).is_fixed() && !share(74).is_fixed());
    }

    #[test]
    fn a_hundred_tenants_that_take_all_they_can_leave_room_for_small_ones() {
        let share = Share::of_percent(25).unwrap();
        let mut used = 0;
        for _ in 0..100 {
            used += taken(share, used, 1_000_000);
        }
        for _ in 0..10 {
            assert!(share.permits(0, used, 1_000_000));
            used += taken(share, used, 1_000_000);
        }
        assert!(used < 1_000_000);
    }

    #[test]
    fn no_request_beyond_the_limit_is_permitted() {
        for percent in [1, 25, 75, 100] {
            let share = Share::of_percent(percent).unwrap();
            assert!(!share.permits(0, 10, 10));
            assert!(!share.permits(u64::MAX, u64::MAX - 1, u64::MAX));
        }
    }
}
