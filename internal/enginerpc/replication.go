package enginerpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Replication is the number of replicas that must have the writes of a call before the call returns.
type Replication struct {
	// Replicas is their number; 0 means that no call waits.
	Replicas int
	// Timeout bounds the wait of one call.
	Timeout time.Duration
	// Missed, which must be set, is called when a call of a worker or keeper succeeds although its writes are on fewer
	// replicas.
	Missed func(ctx context.Context, err error)
}

// replicationClass is the effect on a call if its writes are not on enough replicas in time.
type replicationClass uint8

const (
	// mustReplicate: the call fails with ErrNotReplicated.
	mustReplicate replicationClass = iota
	// shouldReplicate: Replication.Missed is called, and the call succeeds. Its caller is a worker, which has no use
	// for an error: if a failover takes the write back, the execution is claimed again.
	shouldReplicate
	// needNotReplicate: the call does not wait, since no caller relies on its writes: claims, leases, progress, records
	// of workers, and work that the next step of a keeper finds again.
	needNotReplicate
)

// functionsByClass has the functions that write. One that is missing, such as one of a newer library, is mustReplicate.
var functionsByClass = map[replicationClass]string{
	mustReplicate: "ff_ack_cancel_member ff_add_execution_to_flow ff_apply_dependency_to_child " +
		"ff_block_execution_for_admission ff_buffer_signal_for_pending_waitpoint ff_cancel_execution " +
		"ff_cancel_flow ff_change_priority ff_check_admission_and_record ff_close_waitpoint " +
		"ff_complete_execution ff_create_budget ff_create_execution ff_create_flow " +
		"ff_create_pending_waitpoint ff_create_quota_policy ff_delay_execution ff_deliver_signal " +
		"ff_drain_sibling_cancel_group ff_expire_execution ff_expire_suspension ff_fail_execution " +
		"ff_move_to_waiting_children ff_promote_blocked_to_eligible ff_promote_delayed " +
		"ff_reconcile_sibling_cancel_group ff_release_admission ff_replay_execution " +
		"ff_report_usage_and_check ff_reset_budget ff_resolve_dependency ff_resume_execution " +
		"ff_revoke_lease ff_rotate_waitpoint_hmac_secret ff_set_edge_group_policy " +
		"ff_set_execution_tags ff_set_flow_tags ff_stage_dependency_edge ff_suspend_execution " +
		"ff_unblock_execution ffx3_add_api_session ffx3_add_api_token ffx3_audit " +
		"ffx3_begin_api_request ffx3_cancel_flow " +
		"ffx3_cancel_node ffx3_delete_schedule ffx3_drain_worker ffx3_end_api_request ffx3_end_wait " +
		"ffx3_move_start ffx3_move_timer ffx3_pause ffx3_pause_flow ffx3_publish_flow ffx3_purge_flow " +
		"ffx3_remove_api_session ffx3_remove_api_token ffx3_remove_budget ffx3_rerun ffx3_resume ffx3_resume_flow " +
		"ffx3_set_budget ffx3_set_budget_gates ffx3_set_priority ffx3_set_quota ffx3_signal " +
		"ffx3_signal_node ffx3_start ffx3_start_bulk_job ffx3_stop_bulk_job ffx3_submit " +
		"ffx3_withdraw_flow ffx3_write_schedule",
	shouldReplicate: "ffx3_complete ffx3_work ffx3_fail ffx3_release ffx3_suspend ffx3_await_child " +
		"ffx3_end_stopped ffx3_skip ffx3_continue_as_new ffx3_record_step ffx3_open_waitpoint ffx3_link_child ffx3_ask_child " +
		"ffx3_put_graph ffx3_use_budget ffx3_count_usage ffx3_search_secret",
	needNotReplicate: "ff_version ffx3_hold_failure_hook ff_claim_execution ff_claim_resumed_execution " +
		"ff_reclaim_execution " +
		"ff_issue_claim_grant ff_issue_reclaim_grant ff_renew_lease ff_update_progress " +
		"ff_mark_lease_expired_if_due ffx3_claim ffx3_claim_granted ffx3_grant_next ffx3_renew " +
		"ffx3_announce ffx3_report_worker ffx3_put_live_value ffx3_admit ffx3_verify_admissions " +
		"ffx3_leased_ahead ffx3_hold_places ffx3_drop_admissions ffx3_exchange ffx3_quotas ffx3_tick ffx3_watch_run " +
		"ffx3_keep ffx3_end_leases ffx3_trim ffx3_budget_tick ffx3_budget_done ffx3_quota_tick " +
		"ffx3_note_breach ffx3_project_flows ffx3_count_members ffx3_open_feed ffx3_child_ended " +
		"ffx3_end_errand ffx3_forget_fires ffx3_take_bulk_job ffx3_save_bulk_job ffx3_reconcile " +
		"ffx3_reconcile_edges ffx3_reconcile_siblings ffx3_reconcile_quotas ffx3_reconcile_budgets " +
		"ffx3_check_keys ff_append_frame",
}

// replicationClasses is functionsByClass by the name of the function.
var replicationClasses = classesOf(functionsByClass)

func classesOf(lists map[replicationClass]string) map[string]replicationClass {
	classes := make(map[string]replicationClass)
	for class, list := range lists {
		for name := range strings.FieldsSeq(list) {
			classes[name] = class
		}
	}
	return classes
}

func (info callInfo) replicationClass() replicationClass {
	if info.readOnly {
		return needNotReplicate
	}
	return replicationClasses[info.name]
}

// proceed is the key of contexts whose calls continue without replicas.
type proceed struct{}

// ContinueUnreplicated returns a context whose calls do not fail for lack of replicas: Replication.Missed is called
// instead. It is for keepers, and for calls that workers make on their own.
func ContinueUnreplicated(ctx context.Context) context.Context {
	return context.WithValue(ctx, proceed{}, true)
}

// replicator makes calls wait until replicas have their writes.
type replicator struct {
	conn *Conn
	Replication

	mu sync.Mutex
	// places has the known addresses of the primaries of partitions, by hash tag.
	places map[string]string
	// histories has the replication id of the primary of each partition in the last barrier. A primary gets a new one
	// when it takes over and when it restarts.
	histories map[string]string
	barriers  map[string]*barrier // by address
}

func newReplicator(conn *Conn, r Replication) *replicator {
	return &replicator{
		conn: conn, Replication: r,
		places: make(map[string]string), histories: make(map[string]string),
		barriers: make(map[string]*barrier),
	}
}

// barrierPiece bounds how long one barrier waits for replicas. Calls that arrive during a barrier wait for the next
// one.
const barrierPiece = 250 * time.Millisecond

// barrierTimes is how often a call that may be repeated is sent again because its primary has changed.
const barrierTimes = 5

// waitsForReplicas reports whether a call returns only once replicas have its writes.
func (conn *Conn) waitsForReplicas(info callInfo, w *wire) bool {
	return conn.replication != nil && w.tag != "" && info.replicationClass() != needNotReplicate
}

// historyBefore returns the history of the partition in which a call is about to write, or "" if the call does not wait
// for replicas.
func (conn *Conn) historyBefore(ctx context.Context, info callInfo, w *wire) (string, error) {
	if !conn.waitsForReplicas(info, w) {
		return "", nil
	}
	history, err := conn.replication.history(ctx, w.tag)
	if err != nil {
		return "", named(info.name, err)
	}
	return history, nil
}

// wrote reports whether a call may have written something by its reply. A reply that requests a check of the answer
// against a schema means that the call has written nothing and is made again. A call of ffx_start that has created no
// run leaves all of them to ffx_submit.
func wrote(reply any) bool {
	switch r := reply.(type) {
	case SignalReply:
		return r.AnswerSchema == ""
	case SignalNodeReply:
		return r.AnswerSchema == ""
	case EndWaitReply:
		return r.AnswerSchema == ""
	case StartReply:
		return r.Outcomes == "" || strings.Contains(r.Outcomes, "1")
	}
	return true
}

// confirm waits until replicas have the writes of a call that was answered with m. before is the history of the
// partition when the call was sent. If the primary has changed since, the write may be lost, so the call is sent again
// if it may be repeated.
func (r *replicator) confirm(ctx context.Context, info callInfo, w *wire, before string, m message) (message, error) {
	if refused(m) {
		return m, nil // it has written nothing
	}
	deadline := time.Now().Add(r.Timeout)
	for try := 1; ; try++ {
		after, err := r.await(ctx, w.tag, deadline)
		if err == nil && after == before {
			return m, nil
		}
		if err == nil && info.repeatable && try < barrierTimes {
			before = after
			if m, err = r.conn.sendAfter(ctx, info, w, nil); err != nil || refused(m) {
				return m, err
			}
			deadline = time.Now().Add(r.Timeout)
			continue
		}
		if err == nil {
			err = errPrimaryChanged
		}
		err = fmt.Errorf("%s: %w", info.name, notReplicated(err))
		if info.replicationClass() == mustReplicate && ctx.Value(proceed{}) == nil {
			return message{}, err
		}
		r.Missed(ctx, err)
		return m, nil
	}
}

// refused reports whether a reply is a refusal.
func refused(m message) bool {
	items, err := m.ToArray()
	if err != nil || len(items) == 0 {
		return false
	}
	n, err := items[0].ToInt64()
	return err == nil && n == 0
}

// errPrimaryChanged is returned when another server has replaced the one that answered.
var errPrimaryChanged = errors.New("another server has become the primary, or the primary was restarted")

// notReplicated returns the error of a call that was executed but not confirmed. It contains the cause as text alone:
// an error that matches ErrUnavailable would mean that nothing has happened.
func notReplicated(err error) error {
	if errors.Is(err, enginecore.ErrNotReplicated) {
		return err
	}
	return fmt.Errorf("%w: %v", enginecore.ErrNotReplicated, err)
}

// ReplicationMark is a moment of a partition's history, for Replicated. The zero value is that without replication.
type ReplicationMark struct{ history string }

// ReplicationMark returns the present moment of a partition, which is noted before something is read that Replicated is
// to confirm. Without Options.Replication it does nothing.
func (conn *Conn) ReplicationMark(ctx context.Context, p keyspace.Partition) (ReplicationMark, error) {
	if err := conn.connected(); err != nil || conn.replication == nil {
		return ReplicationMark{}, err
	}
	history, err := conn.replication.history(ctx, p.Tag())
	return ReplicationMark{history}, err
}

// Replicated waits until replicas have all that was written in a partition up to now. It reports whether the primary is
// still the one recorded in the mark: if not, data read since may be lost, and must be read again. The error wraps
// enginecore.ErrNotReplicated. Without Options.Replication it does nothing.
func (conn *Conn) Replicated(
	ctx context.Context, p keyspace.Partition, since ReplicationMark,
) (same bool, err error) {
	if err := conn.connected(); err != nil {
		return false, err
	}
	r := conn.replication
	if r == nil {
		return true, nil
	}
	history, err := r.await(ctx, p.Tag(), time.Now().Add(r.Timeout))
	if err != nil {
		return false, notReplicated(err)
	}
	return history == since.history, nil
}

// history returns the last known replication id of the primary of a partition.
func (r *replicator) history(ctx context.Context, tag string) (string, error) {
	r.mu.Lock()
	known := r.histories[tag]
	r.mu.Unlock()
	if known != "" {
		return known, nil
	}
	deadline := time.Now().Add(r.conn.retryFor)
	for {
		reply := r.join(ctx, tag, 0)
		if reply.err == nil {
			return reply.history, nil
		}
		if ctx.Err() != nil || errors.Is(reply.err, enginecore.ErrClosed) || time.Now().After(deadline) {
			return "", fmt.Errorf("not sent: id of the replication: %w", reply.err)
		}
		sleep(ctx, maxPause)
	}
}

// await returns once enough replicas have everything that was written in a partition before, with the replication id of
// its primary. The error states how many replicas have it.
func (r *replicator) await(ctx context.Context, tag string, deadline time.Time) (string, error) {
	for {
		reply := r.join(ctx, tag, r.Replicas)
		if reply.err == nil && reply.replicas >= r.Replicas {
			return reply.history, nil
		}
		err := reply.err
		if err == nil {
			err = fmt.Errorf("%d of %d replicas have it after %s", reply.replicas, r.Replicas, r.Timeout)
		}
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("%w: %w", enginecore.ErrNotReplicated, causeOf(ctx))
		case errors.Is(err, enginecore.ErrClosed) || !time.Now().Before(deadline):
			return "", err
		}
		if reply.err != nil && !sleep(ctx, barrierPiece/10) {
			continue
		}
	}
}

// barrier gathers the calls that wait for the replicas of one primary. Calls that arrive while one round is under way
// share the next one.
type barrier struct {
	replicator *replicator
	address    string
	next       *round
	running    bool
}

// round is one barrier: a write in each of the partitions, then a WAIT for the replicas.
type round struct {
	tags     map[string]bool
	replicas int // the most that a caller requires
	done     chan struct{}
	reply    roundReply
	moved    map[string]error // tags that the primary does not have
}

type roundReply struct {
	history  string
	replicas int
	err      error
}

// join takes part in the next round of the primary of a partition, and returns its reply.
func (r *replicator) join(ctx context.Context, tag string, replicas int) roundReply {
	r.mu.Lock()
	address, node := r.place(tag)
	if node == nil {
		r.mu.Unlock()
		return roundReply{err: fmt.Errorf("%w: no server is known", enginecore.ErrUnavailable)}
	}
	b := r.barriers[address]
	if b == nil {
		b = &barrier{replicator: r, address: address}
		r.barriers[address] = b
	}
	if b.next == nil {
		b.next = &round{tags: make(map[string]bool), done: make(chan struct{})}
	}
	mine := b.next
	mine.tags[tag] = true
	mine.replicas = max(mine.replicas, replicas)
	if !b.running {
		b.running = true
		go b.run()
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
	case <-ctx.Done():
		return roundReply{err: causeOf(ctx)}
	}
	if err := mine.moved[tag]; err != nil {
		r.relocate(ctx, tag, err)
		return roundReply{err: err}
	}
	return mine.reply
}

// place returns the address and the client of the presumed primary of a partition.
func (r *replicator) place(tag string) (string, rueidis.Client) {
	nodes := r.conn.client.Nodes()
	if node := nodes[r.places[tag]]; node != nil {
		return r.places[tag], node
	}
	for _, address := range slices.Sorted(maps.Keys(nodes)) {
		r.places[tag] = address
		return address, nodes[address]
	}
	return "", nil
}

// relocate records the new address of a partition that a server does not have: the address in its redirection. Without
// a known address, relocate sends a command for the partition through the client, which makes the client read the list
// of servers again, and then records any server.
func (r *replicator) relocate(ctx context.Context, tag string, err error) {
	if server, ok := rueidis.IsRedisErr(err); ok {
		if address, moved := server.IsMoved(); moved {
			r.mu.Lock()
			r.places[tag] = address
			known := r.conn.client.Nodes()[address] != nil
			r.mu.Unlock()
			if known {
				return
			}
		}
	}
	// The answer does not matter.
	_ = r.conn.client.Do(ctx, r.conn.barrierWrite(r.conn.client, tag)).Error()
	r.mu.Lock()
	defer r.mu.Unlock()
	addresses := slices.Sorted(maps.Keys(r.conn.client.Nodes()))
	if len(addresses) == 0 {
		return
	}
	at := slices.Index(addresses, r.places[tag])
	r.places[tag] = addresses[(at+1)%len(addresses)]
}

// run performs rounds until no call waits for one.
func (b *barrier) run() {
	r := b.replicator
	for {
		r.mu.Lock()
		now := b.next
		b.next = nil
		if now == nil {
			b.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		b.carryOut(now)
		if now.reply.err == nil {
			r.mu.Lock()
			for tag := range now.tags {
				if now.moved[tag] == nil {
					r.histories[tag] = now.reply.history
				}
			}
			r.mu.Unlock()
		}
		close(now.done)
	}
}

// barrierWrite is a write that changes nothing: WAIT waits for the last write of its connection, which comes after all
// that the primary has answered before.
func (conn *Conn) barrierWrite(client rueidis.Client, tag string) rueidis.Completed {
	key := conn.keys.prefix + ":ffx:" + tag + ":barrier"
	return client.B().Set().Key(key).Value("1").Px(time.Second).Build()
}

// carryOut sends a round to its primary.
func (b *barrier) carryOut(now *round) {
	r := b.replicator
	node := r.conn.client.Nodes()[b.address]
	if node == nil {
		now.reply.err = fmt.Errorf("%w: %s is no longer a server", enginecore.ErrUnavailable, b.address)
		return
	}
	piece := min(barrierPiece, r.Timeout)
	ctx, cancel := context.WithTimeout(context.Background(), piece+r.conn.retryFor)
	defer cancel()
	tags := slices.Sorted(maps.Keys(now.tags))
	commands := make(commands, 0, len(tags)+2)
	for _, tag := range tags {
		commands = append(commands, r.conn.barrierWrite(node, tag))
	}
	commands = append(commands,
		node.B().Wait().Numreplicas(int64(now.replicas)).Timeout(piece.Milliseconds()).Build(),
		node.B().Info().Section("replication").Build())
	answers := node.DoMulti(ctx, commands...)
	for i, tag := range tags {
		if err := answers[i].Error(); err != nil {
			if now.moved == nil {
				now.moved = make(map[string]error)
			}
			now.moved[tag] = barrierError(ctx, "SET", err)
		}
	}
	replicas, err := answers[len(tags)].AsInt64()
	if err != nil {
		now.reply.err = barrierError(ctx, "WAIT", err)
		return
	}
	now.reply.replicas = int(replicas)
	text, err := answers[len(tags)+1].ToString()
	if err != nil {
		now.reply.err = barrierError(ctx, "INFO replication", err)
		return
	}
	_, rest, _ := strings.Cut(text, "master_replid:")
	history, _, _ := strings.Cut(rest, "\r\n")
	if history == "" {
		now.reply.err = &enginecore.DecodeError{Function: "INFO replication", Problem: "no master_replid"}
		return
	}
	now.reply.history = history
}

// barrierError classifies an error of a barrier like the error of a call. A redirection stays as it is.
func barrierError(ctx context.Context, command string, err error) error {
	if server, ok := rueidis.IsRedisErr(err); ok {
		if _, moved := server.IsMoved(); moved {
			return err
		}
	}
	return CommandError(ctx, command, err)
}
