import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads all partitions of a topic from their beginning (or a time) until `count` records came. */
final class ConsumeOperation {
    private ConsumeOperation() {
    }

    static Object run(JsonNode request) {
        Properties config = Json.config(request);
        String topic = request.get("topic").asText();
        int count = request.get("count").asInt();
        long deadline = System.currentTimeMillis() + request.get("timeout_ms").asLong();
        List<Object> records = new ArrayList<>();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, bytes, bytes)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                partitions.add(new TopicPartition(topic, info.partition()));
            }
            consumer.assign(partitions);
            if (request.has("from_timestamp")) {
                seekToTime(consumer, partitions, request.get("from_timestamp").asLong());
            } else {
                consumer.seekToBeginning(partitions);
            }
            while (records.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    records.add(Json.record(record));
                }
            }
        }
        return records;
    }

    private static void seekToTime(
        KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, long timestamp) {
        Map<TopicPartition, Long> times = new LinkedHashMap<>();
        partitions.forEach(partition -> times.put(partition, timestamp));
        Map<TopicPartition, OffsetAndTimestamp> offsets = consumer.offsetsForTimes(times);
        consumer.seekToEnd(partitions);
        for (TopicPartition partition : partitions) {
            OffsetAndTimestamp found = offsets.get(partition);
            if (found != null) {
                consumer.seek(partition, found.offset());
            } else {
                consumer.position(partition);
            }
        }
    }
}
