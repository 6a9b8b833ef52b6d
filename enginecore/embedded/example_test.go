package embedded_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
)

func Example() {
	ctx := context.Background()
	engine, err := embedded.Open(ctx, embedded.Options{Library: `#!lua name=greeter
redis.register_function('greet', function(keys, args)
  local times = redis.call('HINCRBY', keys[1], args[1], 1)
  return 'hello ' .. args[1] .. ', call ' .. times
end)`})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	client, err := rueidis.NewClient(engine.ClientOption())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	for range 2 {
		text, err := client.Do(ctx, client.B().Fcall().Function("greet").Numkeys(1).Key("calls").Arg("ada").Build()).ToString()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(text)
	}
	// Output:
	// hello ada, call 1
	// hello ada, call 2
}
