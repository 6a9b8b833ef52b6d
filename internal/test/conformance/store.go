package conformance

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// batchSize bounds the commands of one pipeline.
const batchSize = 1000

// store reads and writes the key space of the replayed side.
type store struct {
	client rueidis.Client
}

func (s *store) do(ctx context.Context, words ...string) rueidis.RedisResult {
	return s.client.Do(ctx, s.client.B().Arbitrary(words...).Build())
}

// doMulti runs commands in pipelines, in order.
func (s *store) doMulti(ctx context.Context, commands [][]string) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, 0, len(commands))
	for len(commands) > 0 {
		n := min(len(commands), batchSize)
		batch := make(rueidis.Commands, n)
		for i, words := range commands[:n] {
			batch[i] = s.client.B().Arbitrary(words...).Build()
		}
		results = append(results, s.client.DoMulti(ctx, batch...)...)
		commands = commands[n:]
	}
	return results
}

// clock reads the server clock in ms.
func (s *store) clock(ctx context.Context) (int64, error) {
	parts, err := s.do(ctx, "TIME").AsStrSlice()
	if err != nil {
		return 0, err
	}
	if len(parts) != 2 {
		return 0, fmt.Errorf("TIME replied %q", parts)
	}
	seconds, err1 := strconv.ParseInt(parts[0], 10, 64)
	micros, err2 := strconv.ParseInt(parts[1], 10, 64)
	return seconds*1000 + micros/1000, errors.Join(err1, err2)
}

// plain makes a plain command of a trace. An engine without EVAL gets the
// script as a function that exists for this one call.
func (s *store) plain(ctx context.Context, words []string) rueidis.RedisResult {
	result := s.do(ctx, words...)
	e, ok := rueidis.IsRedisErr(result.Error())
	if !ok || len(words) < 3 || !strings.EqualFold(words[0], "EVAL") ||
		!strings.Contains(strings.ToLower(e.Error()), "unknown command") {
		return result
	}
	const name = "conformance_eval"
	library := "#!lua name=" + name + "\nredis.register_function('" + name + "', function(KEYS, ARGV)\n" + words[1] + "\nend)\n"
	if loaded := s.do(ctx, "FUNCTION", "LOAD", "REPLACE", library); loaded.Error() != nil {
		return loaded
	}
	defer s.do(ctx, "FUNCTION", "DELETE", name)
	return s.do(ctx, append([]string{"FCALL", name}, words[2:]...)...)
}

// functions returns the names of all functions that the server has.
func (s *store) functions(ctx context.Context) (map[string]bool, error) {
	libraries, err := s.do(ctx, "FUNCTION", "LIST").ToArray()
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, library := range libraries {
		fields, err := library.AsMap()
		if err != nil {
			return nil, err
		}
		list := fields["functions"]
		functions, err := list.ToArray()
		if err != nil {
			return nil, err
		}
		for _, function := range functions {
			f, err := function.AsMap()
			if err != nil {
				return nil, err
			}
			name := f["name"]
			text, err := name.ToString()
			if err != nil {
				return nil, err
			}
			names[text] = true
		}
	}
	return names, nil
}

// size is the number of keys, possibly including some that ran out.
func (s *store) size(ctx context.Context) (int64, error) {
	return s.do(ctx, "DBSIZE").AsInt64()
}

// names lists all keys.
func (s *store) names(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	cursor := "0"
	for {
		page, err := s.do(ctx, "SCAN", cursor, "COUNT", "1000").ToArray()
		if err != nil {
			return nil, err
		}
		if len(page) != 2 {
			return nil, fmt.Errorf("SCAN replied %d elements", len(page))
		}
		if cursor, err = page[0].ToString(); err != nil {
			return nil, err
		}
		keys, err := page[1].AsStrSlice()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			names[key] = true
		}
		if cursor == "0" {
			return names, nil
		}
	}
}

var contentCommand = map[string][]string{
	"string": {"GET"},
	"hash":   {"HGETALL"},
	"zset":   {"ZRANGE", "0", "-1", "WITHSCORES"},
	"set":    {"SMEMBERS"},
	"stream": {"XRANGE", "-", "+"},
}

// read reads keys; those that do not exist are missing from the result. The
// type that a key probably has saves a round trip.
func (s *store) read(ctx context.Context, keys []string, probably func(key string) string) (keyspace, error) {
	const perKey = 3
	commands := make([][]string, 0, perKey*len(keys))
	guesses := make([]string, len(keys))
	for i, key := range keys {
		guesses[i] = probably(key)
		if contentCommand[guesses[i]] == nil {
			guesses[i] = "hash"
		}
		commands = append(commands, []string{"TYPE", key}, []string{"PEXPIRETIME", key},
			content(guesses[i], key))
	}
	results := s.doMulti(ctx, commands)
	ks := make(keyspace, len(keys))
	for i, key := range keys {
		typ, err := results[perKey*i].ToString()
		if err != nil {
			return nil, fmt.Errorf("TYPE %s: %w", key, err)
		}
		if typ == "none" {
			continue
		}
		expires, err := results[perKey*i+1].AsInt64()
		if err != nil {
			return nil, fmt.Errorf("PEXPIRETIME %s: %w", key, err)
		}
		if contentCommand[typ] == nil {
			return nil, fmt.Errorf("key %s has the unknown type %s", key, typ)
		}
		result := results[perKey*i+2]
		if typ != guesses[i] {
			result = s.do(ctx, content(typ, key)...)
		}
		v, err := decodeContent(typ, result)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", typ, key, err)
		}
		if v == nil {
			continue
		}
		if expires >= 0 {
			v.expires = strconv.FormatInt(expires, 10)
		}
		ks[key] = v
	}
	return ks, nil
}

func content(typ, key string) []string {
	words := contentCommand[typ]
	return append([]string{words[0], key}, words[1:]...)
}

// decodeContent returns nil for a key that ran out in the meantime.
func decodeContent(typ string, result rueidis.RedisResult) (*value, error) {
	v := &value{typ: typ}
	var err error
	switch typ {
	case "string":
		v.str, err = result.ToString()
		if rueidis.IsRedisNil(err) {
			return nil, nil
		}
		return v, err
	case "hash":
		v.fields, err = result.AsStrMap()
	case "zset":
		var scores []rueidis.ZScore
		scores, err = result.AsZScores()
		v.fields = make(map[string]string, len(scores))
		for _, s := range scores {
			v.fields[s.Member] = formatNumber(s.Score)
		}
	case "set":
		var members []string
		members, err = result.AsStrSlice()
		v.fields = make(map[string]string, len(members))
		for _, m := range members {
			v.fields[m] = ""
		}
	case "stream":
		// An empty stream exists; the other types vanish with their last element.
		v.entries, err = decodeEntries(result)
		return v, err
	}
	if err == nil && len(v.fields) == 0 {
		return nil, nil
	}
	return v, err
}

func decodeEntries(result rueidis.RedisResult) ([]entry, error) {
	list, err := result.ToArray()
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(list))
	for _, item := range list {
		parts, err := item.ToArray()
		if err != nil {
			return nil, err
		}
		if len(parts) != 2 {
			return nil, fmt.Errorf("a stream entry of %d parts", len(parts))
		}
		var e entry
		if e.ID, err = parts[0].ToString(); err != nil {
			return nil, err
		}
		if e.Fields, err = parts[1].AsStrSlice(); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
