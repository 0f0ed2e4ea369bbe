import io.vertx.ext.stomp.StompServer;
import io.vertx.ext.stomp.StompServerHandler;
import io.vertx.ext.stomp.StompServerOptions;

/** The STOMP server of Vert.x as its guide sets it up, also over WebSocket at /stomp. Arguments: the two ports. */
public class Vertx {
    public static void main(String[] ports) {
        io.vertx.core.Vertx vertx = io.vertx.core.Vertx.vertx();
        StompServerOptions options = new StompServerOptions().setHost("127.0.0.1").setPort(Integer.parseInt(ports[0]));
        options.setWebsocketBridge(true).setWebsocketPath("/stomp");
        StompServer server = StompServer.create(vertx, options).handler(StompServerHandler.create(vertx));
        vertx.createHttpServer(new io.vertx.core.http.HttpServerOptions().setWebSocketSubProtocols(java.util.List.of("v10.stomp", "v11.stomp", "v12.stomp")))
                .webSocketHandler(server.webSocketHandler())
                .listen(Integer.parseInt(ports[1]), "127.0.0.1");
        server.listen();
    }
}
