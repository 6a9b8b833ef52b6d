// Package dispatch decides for one worker which shard (a lane in a partition) it claims from next, and when. It holds
// state only: it sends nothing and starts no goroutine apart from timers.
//
// Its main types:
//
//   - [Queue] holds the free slots of the worker, the shards where work may be waiting, and the wake-ups for
//     which the worker is responsible.
//   - [ClaimTarget] is the queue's target of the next claim: the shard, the number of slots reserved, and the notices
//     of the claim to other workers.
//   - [PeerSet] tracks the other workers of each lane. From them it derives the worker's turn in responding to a
//     wake-up and the slots of the wake ring that the worker subscribes to.
//
// Package worker feeds the queue with wake-ups, sweeps and replies (Add, AddShared, AddAssigned, AddSetAside,
// MarkEmpty). Its dispatch loop calls Take whenever Changed has a value, sends the claim, and ends it with FinishClaim;
// ReleaseSlot follows when a slot has no more work. Queue and PeerSet are
// safe for concurrent use.
//
// The package imports enginecore for ids and internal/stablehash, and no other package of runtime: it knows neither
// connections nor calls. The page docs/contributing/wake-path.md describes the whole path from a call that makes
// executions eligible to the claim.
package dispatch
