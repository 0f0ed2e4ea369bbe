#!/usr/bin/env bash
# Apache Artemis 2.56.0, an acceptor for STOMP with anycastPrefix=/queue/, and its Core JMS client. The prefix is taken off
# `destination`, and not off `reply-to`: the JMS consumer of the request gets an address "/queue/replies", which is
# another one than that where the STOMP client waits. Its reply is sent without an error and never comes.
set -euo pipefail
stated="\
request: price? to be answered to /queue/replies
answered to what the message says: None
answered to the queue replies: 42"

source "$(dirname "$0")/lib/artemis.sh"
stomp="$(free_ports 1)"
prefixes="protocols=STOMP;anycastPrefix=/queue/;multicastPrefix=/topic/"
start_artemis "s|<acceptors>|&<acceptor name=\"prefixed\">tcp://127.0.0.1:$stomp?$prefixes</acceptor>|"
cat >"$work/Answer.java" <<'JAVA'
import javax.jms.*;
import org.apache.activemq.artemis.jms.client.*;

public class Answer {
    public static void main(String[] arguments) throws Exception {
        var factory = new ActiveMQConnectionFactory("tcp://127.0.0.1:" + arguments[0]);
        try (var connection = factory.createConnection("u", "u")) {
            connection.start();
            var session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            var request = (TextMessage) session.createConsumer(session.createQueue("requests")).receive(20_000);
            var to = request.getJMSReplyTo();
            var address = ((ActiveMQDestination) to).getAddress();
            System.out.println("request: " + request.getText() + " to be answered to " + address);
            if (arguments[1].equals("replies")) to = session.createQueue("replies");
            session.createProducer(to).send(session.createTextMessage("42"));
        }
    }
}
JAVA
as_stated "$stomp" "$port" "$artemis_libraries" "$work/Answer.java" <<'PY'
import subprocess, sys
from wire import Wire

stomp, core, libraries, program = sys.argv[1:]
wire = Wire(stomp)
wire.subscribe("/queue/replies")
for title, where in {"what the message says": "said", "the queue replies": "replies"}.items():
    wire.confirmed("SEND", {"destination": "/queue/requests", "reply-to": "/queue/replies"}, b"price?")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}/*", program, core, where]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if where == "said":
        print(said, end="")
    print(f"answered to {title}:", wire.body(5))
PY
