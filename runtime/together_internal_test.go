package runtime

import (
	"context"
	"testing"
)

func TestWhileAnyWaits(t *testing.T) {
	t.Parallel()
	one, endOne := context.WithCancel(t.Context())
	other, endOther := context.WithCancel(t.Context())
	itself := func(ctx context.Context) context.Context { return ctx }
	value := context.WithValue(one, t, 1) // ends together with one

	ctx, cancel := whileAnyWaits([]context.Context{one, value, other, one}, itself)
	defer cancel()
	endless, cancelEndless := whileAnyWaits([]context.Context{one, context.Background()}, itself)
	endOne()
	if <-one.Done(); ctx.Err() != nil {
		t.Error("the context ended although one that waits had not")
	}
	endOther()
	<-ctx.Done()
	if endless.Err() != nil {
		t.Error("the context ended although one that waits never does")
	}
	if cancelEndless(); endless.Err() == nil {
		t.Error("the call was made, and its context has not ended")
	}
}

// Runs that are started under one context are watched at the cost of one.
func BenchmarkWhileAnyWaits(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	waiting := make([]context.Context, 16)
	for i := range waiting {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		waiting[i] = child
	}
	b.ReportAllocs()
	for b.Loop() {
		_, cancel := whileAnyWaits(waiting, func(ctx context.Context) context.Context { return ctx })
		cancel()
	}
}
