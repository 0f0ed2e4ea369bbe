import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;

/**
 * A client of JMS. Arguments: the library (qpid, artemis or activemq), the address, login, password, the name of a queue,
 * and either "send" or a number of messages to receive.
 *
 * "send" reads a line for each thing to do: words with tabs between them, of which "message KIND" begins a message
 * and "send" sends it. See {@link #take}. Received messages are printed in the same form.
 */
public class Jms {
    private final Session session;
    private final MessageProducer producer;
    private Message message;

    Jms(Session session, Destination queue) throws Exception {
        this.session = session;
        producer = session.createProducer(queue);
    }

    static ConnectionFactory factory(String library, String address) throws Exception {
        return switch (library) {
            case "qpid" -> new org.apache.qpid.jms.JmsConnectionFactory(address);
            case "artemis" -> new org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory(address);
            default -> new org.apache.activemq.ActiveMQConnectionFactory(address);
        };
    }

    void take(String[] words) throws Exception {
        switch (words[0]) {
            case "message" -> message = switch (words[1]) {
                case "Text" -> session.createTextMessage();
                case "Bytes" -> session.createBytesMessage();
                case "Map" -> session.createMapMessage();
                case "Stream" -> session.createStreamMessage();
                case "Object" -> session.createObjectMessage();
                default -> session.createMessage();
            };
            case "body" -> body(value(words[1], words[2]));
            case "entry" -> ((MapMessage) message).setObject(words[1], value(words[2], words[3]));
            case "property" -> message.setObjectProperty(words[1], value(words[2], words[3]));
            case "correlation" -> message.setJMSCorrelationID(words[1]);
            case "correlation-bytes" -> message.setJMSCorrelationIDAsBytes(HexFormat.of().parseHex(words[1]));
            case "reply-to" -> message.setJMSReplyTo(session.createQueue(words[1]));
            case "type" -> message.setJMSType(words[1]);
            case "priority" -> producer.setPriority(Integer.parseInt(words[1]));
            case "ttl" -> producer.setTimeToLive(Long.parseLong(words[1]));
            case "non-persistent" -> producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            case "neither id nor time" -> {
                producer.setDisableMessageID(true);
                producer.setDisableMessageTimestamp(true);
            }
            case "send" -> {
                producer.send(message);
                producer.setPriority(Message.DEFAULT_PRIORITY);
                producer.setTimeToLive(Message.DEFAULT_TIME_TO_LIVE);
                producer.setDeliveryMode(Message.DEFAULT_DELIVERY_MODE);
                producer.setDisableMessageID(false);
                producer.setDisableMessageTimestamp(false);
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    void body(Object value) throws Exception {
        if (message instanceof TextMessage text) {
            text.setText((String) value);
        } else if (message instanceof BytesMessage bytes) {
            bytes.writeBytes((byte[]) value);
        } else if (message instanceof StreamMessage stream) {
            stream.writeObject(value);
        } else {
            ((ObjectMessage) message).setObject((String) value);
        }
    }

    static Object value(String type, String text) {
        return switch (type) {
            case "Boolean" -> Boolean.valueOf(text);
            case "Byte" -> Byte.valueOf(text);
            case "Short" -> Short.valueOf(text);
            case "Integer" -> Integer.valueOf(text);
            case "Long" -> Long.valueOf(text);
            case "Float" -> Float.valueOf(text);
            case "Double" -> Double.valueOf(text);
            case "Character" -> text.charAt(0);
            case "byte[]" -> HexFormat.of().parseHex(text);
            case "null" -> null;
            default -> text;
        };
    }

    static String shown(Object value) {
        if (value == null) {
            return "null\t";
        }
        String text = value instanceof byte[] octets ? HexFormat.of().formatHex(octets) : value.toString();
        return value.getClass().getSimpleName() + "\t" + text;
    }

    static void print(Message message) throws Exception {
        List<String> lines = new ArrayList<>();
        if (message instanceof TextMessage text) {
            lines.add("message\tText\nbody\t" + shown(text.getText()));
        } else if (message instanceof BytesMessage bytes) {
            byte[] octets = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(octets);
            lines.add("message\tBytes\nbody\t" + shown(octets));
        } else {
            lines.add("message\t" + message.getClass().getSimpleName());
        }
        lines.add("correlation\t" + message.getJMSCorrelationID());
        lines.add("reply-to\t" + message.getJMSReplyTo());
        lines.add("type\t" + message.getJMSType());
        lines.add("priority\t" + message.getJMSPriority());
        lines.add("expires\t" + message.getJMSExpiration());
        lines.add("persistent\t" + (message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT));
        for (Object name : Collections.list(message.getPropertyNames())) {
            lines.add("property\t" + name + "\t" + shown(message.getObjectProperty((String) name)));
        }
        System.out.println(String.join("\n", lines) + "\n");
    }

    public static void main(String[] given) throws Exception {
        Connection connection = factory(given[0], given[1]).createConnection(given[2], given[3]);
        try (connection) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Destination queue = session.createQueue(given[4]);
            if (!given[5].equals("send")) {
                MessageConsumer consumer = session.createConsumer(queue);
                connection.start();
                for (int left = Integer.parseInt(given[5]); left > 0; left--) {
                    print(consumer.receive(30_000));
                }
                return;
            }
            Jms client = new Jms(session, queue);
            var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                client.take(line.split("\t", -1));
            }
        }
    }
}
