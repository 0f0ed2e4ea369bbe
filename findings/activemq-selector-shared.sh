#!/usr/bin/env bash
# Apache ActiveMQ Classic 6.3.1. What a JMS consumer's selector matches depends on what a STOMP client did before. A
# string property "10" does not match `price > 9`, as JMS wants it, until some STOMP client has subscribed, to any queue,
# with the same text: then the JMS consumer gets the message. `price > 8` still matches nothing.
set -euo pipefail
stated="\
price > 9: 0 messages
price > 8: 0 messages
price > 9: 1 messages
price > 8: 0 messages"

source "$(dirname "$0")/lib/activemq.sh"
start_activemq
cat >"$work/Browse.java" <<'JAVA'
import jakarta.jms.*;
import java.util.Collections;

public class Browse {
    public static void main(String[] selectors) throws Exception {
        var factory = new org.apache.activemq.ActiveMQConnectionFactory(System.getenv("BROKER"));
        try (var context = factory.createContext()) {
            var orders = context.createQueue("orders");
            if (!context.createBrowser(orders).getEnumeration().hasMoreElements())
                context.createProducer().setProperty("price", "10").send(orders, "order 1");
            for (String selector : selectors) {
                var found = Collections.list(context.createBrowser(orders, selector).getEnumeration());
                System.out.println(selector + ": " + found.size() + " messages");
            }
        }
    }
}
JAVA
export BROKER="tcp://127.0.0.1:$openwire" libraries="$activemq_libraries" work
as_stated "$stomp" <<'PY'
import os, subprocess, sys
from wire import Wire


def browse():
    program = ["java", "-cp", os.environ["libraries"] + "/*", os.environ["work"] + "/Browse.java"]
    print(subprocess.run([*program, "price > 9", "price > 8"], capture_output=True, text=True, timeout=60).stdout, end="")


browse()
wire = Wire(sys.argv[1])
wire.subscribe("/queue/another", selector="price > 9")
wire.close()
browse()
PY
