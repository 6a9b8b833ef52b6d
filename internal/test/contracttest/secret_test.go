package contracttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// TestTokens delivers signals with tokens of every kind under secrets of every kind.
func TestTokens(t *testing.T) {
	t.Parallel()
	const future = "9999999999999"
	eachForm(t, func(t *testing.T, b *bench) {
		secrets := b.keys.WaitpointSecrets(partition)
		for _, x := range []struct {
			name string
			// secrets are fields that replace the secrets of the partition; nil keeps them.
			secrets []string
			token   func(genuine string) string
			want    string
		}{
			{"genuine", nil, nil, ""},
			{"empty", nil, func(string) string { return "" }, "missing_token"},
			{"without a colon", nil, func(g string) string { return strings.ReplaceAll(g, ":", "") }, "invalid_token"},
			{"without a key id", nil, func(g string) string { return strings.TrimPrefix(g, "k1") }, "invalid_token"},
			{"without a digest", nil, func(string) string { return "k1:" }, "invalid_token"},
			{"with a long digest", nil, func(g string) string { return g + "0" }, "invalid_token"},
			{"with two colons", nil, func(g string) string { return strings.Replace(g, ":", "::", 1) }, "invalid_token"},
			{"in capitals", nil, func(g string) string { return "k1:" + strings.ToUpper(g[3:]) }, "invalid_token"},
			{"of an unknown key", nil, func(g string) string { return "k2" + g[2:] }, "invalid_token"},
			{"of another secret", []string{"current_kid", "k1", "secret:k1", "00fe"}, nil, "invalid_token"},
			{"of the same secret in capitals", []string{"current_kid", "k1", "secret:k1", "00FF"}, nil, ""},
			{"without secrets", []string{}, nil, "hmac_secret_not_initialized"},
			{"without a current key", []string{"secret:k1", "00ff"}, nil, "hmac_secret_not_initialized"},
			{"whose current key is gone", []string{"current_kid", "k1"}, nil, "invalid_token"},
			{"whose current key cannot be read", []string{"current_kid", "k1", "secret:k1", "0"}, nil, "invalid_secret"},
			{"whose current key has run out", []string{"current_kid", "k1", "secret:k1", "00ff", "expires_at:k1", "1"}, nil, ""},
			{"of a former key", []string{"current_kid", "k2", "secret:k1", "00ff", "expires_at:k1", future}, nil, ""},
			{"of a former key that is gone", []string{"current_kid", "k2", "expires_at:k1", future}, nil, "invalid_token"},
			{"of a former key without a time", []string{"current_kid", "k2", "secret:k1", "00ff"}, nil, "token_expired"},
			{"of a former key with no time", []string{"current_kid", "k2", "secret:k1", "00ff", "expires_at:k1", "0"}, nil, "token_expired"},
			{"of a former key with a bad time", []string{"current_kid", "k2", "secret:k1", "00ff", "expires_at:k1", "x"}, nil, "token_expired"},
			{"of a former key that has run out", []string{"current_kid", "k2", "secret:k1", "zz", "expires_at:k1", "1"}, nil, "token_expired"},
			{"of a former key that cannot be read", []string{"current_kid", "k2", "secret:k1", "zz", "expires_at:k1", future}, nil, "invalid_secret"},
		} {
			b.do("DEL", secrets)
			w := b.suspended(forGo)
			if x.token != nil {
				w.token = x.token(w.token)
			}
			if x.secrets != nil {
				b.do("DEL", secrets)
				b.do(append([]string{"HSET", secrets, "other", ""}, x.secrets...)...)
				b.do("HDEL", secrets, "other")
			}
			call := b.deliverCall(w, "go")
			expected := "0|" + x.want
			if x.want == "" {
				expected = "1|OK|" + string(call.SignalID) + "|resume_condition_satisfied"
			}
			want(t, "token "+x.name, b.say(wireOf(b, call)), expected)
			want(t, "mark of a token "+x.name, b.core(w.id, "last_hmac_validation_failed_at") != "", x.want != "")
		}
		b.do("DEL", secrets)
		w := b.suspended(forGo)
		deliver := wireOf(b, b.deliverCall(w, "go"))
		deliver.keys = deliver.keys[:13]
		want(t, "without the key of the secrets", b.say(deliver), "0|invalid_keys_missing_hmac")
		suspend := wireOf(b, b.suspendCall(b.running(), newWaitpointID(), forGo))
		suspend.keys = suspend.keys[:16]
		want(t, "suspension without the key of the secrets", b.say(suspend), "0|invalid_keys_missing_hmac")
	})
}

// TestRotation rotates signing keys in every way.
func TestRotation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		secrets := b.keys.WaitpointSecrets(partition)
		list := wireOf(b, enginerpc.ListWaitpointHMACKIDsCall{Partition: partition})
		rotate := func(kid, secret, grace string) string {
			call := enginerpc.RotateWaitpointHMACSecretCall{Partition: partition, NewKID: "k", NewSecretHex: "00", Grace: time.Hour}
			return b.say(wireOf(b, call).with(1, kid).with(2, secret).with(3, grace))
		}
		want(t, "no keys", b.say(list), "1|OK||0")
		for _, x := range []struct{ kid, secret, grace, want string }{
			{"", "0", "x", "0|invalid_kid"},
			{"a:b", "0", "x", "0|invalid_kid"},
			{"a", "", "x", "0|invalid_secret_hex"},
			{"a", "0", "x", "0|invalid_secret_hex"},
			{"a", "0g", "x", "0|invalid_secret_hex"},
			{"a", "00", "", "0|invalid_grace_ms"},
			{"a", "00", "nan", "0|invalid_grace_ms"},
			{"a", "00", "-1", "0|invalid_grace_ms"},
			{"a", "00", "1.5", "0|invalid_grace_ms"},
			{"a", "00", "9007199254740992", "0|invalid_grace_ms"},
			{"a", "aB", "0", "1|OK|rotated||a|0"},
			{"a", "aB", "0x10", "1|OK|noop|a"},
			{"a", "ab", "0", "0|rotation_conflict|a"},
			{"b", "bb", " 3600000 ", "1|OK|rotated|a|b|0"},
			{"c", "cc", "36e5", "1|OK|rotated|b|c|0"},
		} {
			want(t, fmt.Sprintf("%q %q %q", x.kid, x.secret, x.grace), rotate(x.kid, x.secret, x.grace), x.want)
		}
		want(t, "stored", b.field(secrets, "secret:a"), "aB")
		want(t, "previous", b.field(secrets, "previous_kid"), "b")
		want(t, "its end", b.field(secrets, "previous_expires_at"), b.field(secrets, "expires_at:b"))
		b.do("HDEL", secrets, "secret:c")
		want(t, "a current key that is gone comes back", rotate("c", "c0", "0"), "1|OK|noop|c")
		want(t, "its secret", b.field(secrets, "secret:c"), "c0")
		b.do("HSET", secrets, "expires_at:a", "x", "expires_at:b", "0", "expires_at:ghost", "1")
		want(t, "no former keys", b.say(list), "1|OK|c|0")
		want(t, "three to be forgotten", rotate("d", "dd", "9007199254740991"), "1|OK|rotated|c|d|3")
		want(t, "forgotten", b.field(secrets, "secret:a")+b.field(secrets, "secret:b")+b.field(secrets, "expires_at:ghost"), "")
		end := b.field(secrets, "expires_at:c")
		want(t, "fourteen digits", strings.HasPrefix(end, "9.0089") && strings.HasSuffix(end, "e+15"), true)
		want(t, "keys", b.say(list), "1|OK|d|1|c|"+end)
	})
}
