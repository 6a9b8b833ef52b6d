package engine

import "context"

// Listeners counts the subscribers of each channel over all servers (PUBSUB NUMSUB). If a server refuses the command
// or does not answer, fault is its error; the subscribers on the other servers are counted nevertheless.
func (s *Session) Listeners(ctx context.Context, channels ...string) (total map[string]int64, fault error) {
	total = make(map[string]int64, len(channels))
	for _, node := range s.Client.Nodes() {
		counts, err := node.Do(ctx, node.B().PubsubNumsub().Channel(channels...).Build()).AsIntMap()
		if err != nil {
			fault = err
			continue
		}
		for channel, n := range counts {
			total[channel] += n
		}
	}
	return total, fault
}

// KeepersSeen counts the connections that subscribe to the keepers' channel, also of keepers on standby.
// known is false if none was counted and a server did not answer. A keeper whose machine vanished counts until the
// server notices, after the time of its tcp-keepalive setting.
func (s *Session) KeepersSeen(ctx context.Context) (seen int64, known bool) {
	channel := s.Core.ChannelKeepers()
	counts, fault := s.Listeners(ctx, channel)
	return counts[channel], fault == nil || counts[channel] > 0
}
