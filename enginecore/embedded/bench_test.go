package embedded

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
)

// lifeLibrary has the shape of an execution's life: four calls, about forty commands, hashes of forty fields.
const lifeLibrary = `#!lua name=life
local function now() local t = redis.call('TIME'); return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) end
local function map(list) local m = {} for i = 1, #list, 2 do m[list[i]] = list[i + 1] end return m end
redis.register_function('create', function(keys, args)
  local n = now()
  if redis.call('EXISTS', keys[1]) == 1 then return {1, 'DUPLICATE'} end
  local policy = cjson.decode(args[2])
  local fields = {}
  for i = 1, 40 do fields[#fields + 1] = 'field_' .. i; fields[#fields + 1] = tostring(n) end
  redis.call('HSET', keys[1], 'lifecycle_phase', 'runnable', 'priority', tostring(policy.priority), 'created_at', tostring(n), unpack(fields))
  redis.call('SET', keys[2], args[1])
  redis.call('SET', keys[3], args[2])
  redis.call('ZADD', keys[4], n - policy.priority * 1000000000000, keys[1])
  redis.call('SADD', keys[5], keys[1])
  redis.call('SET', keys[6], keys[1], 'PX', 86400000)
  redis.call('ZADD', keys[7], n + 60000, keys[1])
  return {1, 'OK', keys[1]}
end)
redis.register_function('grant', function(keys, args)
  local n = now()
  local core = map(redis.call('HGETALL', keys[1]))
  if core.lifecycle_phase ~= 'runnable' then return {0, 'execution_not_eligible'} end
  if not redis.call('ZSCORE', keys[4], keys[1]) then return {0, 'execution_not_in_eligible_set'} end
  if redis.call('EXISTS', keys[8]) == 1 then return {0, 'grant_already_exists'} end
  redis.call('HSET', keys[8], 'worker_id', args[1], 'grant_expires_at', tostring(n + 5000), 'created_at', tostring(n))
  redis.call('PEXPIREAT', keys[8], n + 5000)
  return {1, 'OK'}
end)
redis.register_function('claim', function(keys, args)
  local n = now()
  local core = map(redis.call('HGETALL', keys[1]))
  if core.lifecycle_phase ~= 'runnable' then return {0, 'execution_not_leaseable'} end
  local grant = map(redis.call('HGETALL', keys[8]))
  if grant.worker_id ~= args[1] then return {0, 'invalid_claim_grant'} end
  local epoch = tostring((tonumber(core.current_lease_epoch) or 0) + 1)
  local expires = n + 30000
  redis.call('DEL', keys[8])
  redis.call('ZREM', keys[4], keys[1])
  redis.call('HSET', keys[9], 'lease_id', args[2], 'lease_epoch', epoch, 'expires_at', tostring(expires), 'worker_id', args[1])
  redis.call('HSET', keys[1], 'lifecycle_phase', 'active', 'ownership_state', 'leased', 'current_lease_id', args[2],
    'current_lease_epoch', epoch, 'lease_expires_at', tostring(expires), 'last_mutation_at', tostring(n))
  redis.call('HSET', keys[10], 'attempt_id', args[2], 'attempt_index', '0', 'started_at', tostring(n))
  redis.call('HSET', keys[11], 'last_usage_report_seq', '0')
  redis.call('ZADD', keys[12], n, '0')
  redis.call('ZADD', keys[13], expires, keys[1])
  redis.call('ZADD', keys[14], expires, keys[1])
  redis.call('SADD', keys[15], keys[1])
  redis.call('XADD', keys[16], 'MAXLEN', '~', 1000, '*', 'event', 'acquired', 'lease_id', args[2], 'ts', tostring(n))
  return {1, 'OK', args[2], epoch, tostring(expires)}
end)
redis.register_function('complete', function(keys, args)
  local n = now()
  local core = map(redis.call('HGETALL', keys[1]))
  if core.lifecycle_phase ~= 'active' then return {0, 'execution_not_active'} end
  if core.current_lease_id ~= args[2] then return {0, 'stale_lease'} end
  if tonumber(core.lease_expires_at) <= n then return {0, 'lease_expired'} end
  redis.call('HSET', keys[1], 'lifecycle_phase', 'terminal', 'terminal_outcome', 'success', 'current_lease_id', '',
    'completed_at', tostring(n), 'last_mutation_at', tostring(n))
  redis.call('SET', keys[17], args[3])
  redis.call('HSET', keys[10], 'attempt_state', 'ended_success', 'ended_at', tostring(n))
  redis.call('DEL', keys[9])
  redis.call('ZREM', keys[13], keys[1])
  redis.call('ZREM', keys[14], keys[1])
  redis.call('ZREM', keys[7], keys[1])
  redis.call('SREM', keys[15], keys[1])
  redis.call('ZADD', keys[18], n, keys[1])
  redis.call('XADD', keys[16], 'MAXLEN', '~', 1000, '*', 'event', 'released', 'lease_id', args[2], 'ts', tostring(n))
  redis.call('PUBLISH', 'completions', cjson.encode({execution_id = keys[1], outcome = 'success'}))
  return {1, 'OK'}
end)
`

func lifeKeys(id string) []string {
	tag := "{fp:7}"
	own := func(name string) string { return "ff:exec:" + tag + ":" + id + ":" + name }
	idx := func(name string) string { return "ff:idx:" + tag + ":" + name }
	return []string{own("core"), own("payload"), own("policy"), idx("lane:default:eligible"), idx("all"), own("idem"), idx("deadline"),
		own("claim_grant"), own("lease:current"), own("attempt"), own("attempt:usage"), own("attempts"), idx("lease_expiry"),
		idx("lane:default:active"), idx("worker:w1:leases"), own("lease:history"), own("result"), idx("lane:default:terminal")}
}

func lifeCalls(id string) [][]string {
	return [][]string{
		{"create", `{"input":"some payload of an ordinary size"}`, `{"priority":5,"max_retry_count":3}`},
		{"grant", "w1"},
		{"claim", "w1", "lease-" + id},
		{"complete", "w1", "lease-" + id, `{"result":[1,2,3]}`},
	}
}

func life(b testing.TB, ctx context.Context, c rueidis.Client, id string) {
	keys := lifeKeys(id)
	for _, call := range lifeCalls(id) {
		r, err := c.Do(ctx, c.B().Fcall().Function(call[0]).Numkeys(int64(len(keys))).Key(keys...).Arg(call[1:]...).Build()).ToArray()
		if err != nil {
			b.Fatal(err)
		}
		if n, _ := r[0].AsInt64(); n != 1 {
			b.Fatal(call[0], r)
		}
	}
}

func benchClient(b testing.TB, o rueidis.ClientOption) rueidis.Client {
	c, err := rueidis.NewClient(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func BenchmarkLifecycle(b *testing.B) {
	ctx := context.Background()
	var ids atomic.Int64
	next := func() string { return strconv.FormatInt(ids.Add(1), 10) }
	b.Run("direct", func(b *testing.B) {
		e := open(b, Options{Library: lifeLibrary})
		b.ReportAllocs()
		for b.Loop() {
			id := next()
			keys := lifeKeys(id)
			for _, call := range lifeCalls(id) {
				if _, err := e.fcall(ctx, call[0], keys, call[1:]); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("rueidis", func(b *testing.B) {
		c := benchClient(b, open(b, Options{Library: lifeLibrary}).ClientOption())
		b.ReportAllocs()
		for b.Loop() {
			life(b, ctx, c, next())
		}
	})
	b.Run("rueidis-32", func(b *testing.B) {
		c := benchClient(b, open(b, Options{Library: lifeLibrary}).ClientOption())
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				life(b, ctx, c, next())
			}
		})
	})
	b.Run("fsync-always-32", func(b *testing.B) {
		c := benchClient(b, open(b, Options{Library: lifeLibrary, Dir: b.TempDir()}).ClientOption())
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				life(b, ctx, c, next())
			}
		})
	})
	b.Run("fsync-never", func(b *testing.B) {
		c := benchClient(b, open(b, Options{Library: lifeLibrary, Dir: b.TempDir(), Fsync: FsyncNever}).ClientOption())
		for b.Loop() {
			life(b, ctx, c, next())
		}
	})
	b.Run("server", func(b *testing.B) {
		addr := server(b)
		if v := connectTCP(b, addr).must(b, "FUNCTION", "LOAD", lifeLibrary); v.text != "life" {
			b.Fatal(v)
		}
		c := benchClient(b, rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
		for b.Loop() {
			life(b, ctx, c, next())
		}
	})
}
